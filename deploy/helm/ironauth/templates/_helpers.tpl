{{- define "ironauth.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ironauth.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "ironauth.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "ironauth.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "ironauth.selector" -}}
app.kubernetes.io/name: {{ include "ironauth.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ironauth.labels" -}}
{{ include "ironauth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "ironauth.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "ironauth.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "ironauth.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "ironauth.host" -}}
{{- (urlParse .Values.issuer).hostname }}
{{- end }}

{{/* What is no secret, as name and text. The Job has them itself: it runs before there is a ConfigMap. */}}
{{- define "ironauth.settings" -}}
ALLOWED_HOSTS: {{ concat (list (include "ironauth.host" .)) .Values.extraHosts | uniq | join "," | quote }}
DEBUG: "0"
IRONAUTH_ISSUER: {{ .Values.issuer | quote }}
IRONAUTH_HASH_THREADS: {{ .Values.hashThreads | quote }}
IRONAUTH_MAIL_DELIVERY: {{ .Values.mailWorker.enabled | ternary "worker" "server" }}
{{- if .Values.trustedProxies }}
IRONAUTH_TRUSTED_PROXIES: {{ join "," .Values.trustedProxies | quote }}
{{- end }}
{{- range $name, $text := .Values.settings }}
{{ $name }}: {{ $text | quote }}
{{- end }}
{{- end }}

{{- define "ironauth.secrets" -}}
{{- range .Values.existingSecrets }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- end }}

{{/* The Secrets first: what the chart itself says of a setting wins. */}}
{{- define "ironauth.envFrom" -}}
{{ include "ironauth.secrets" . | trim }}
- configMapRef:
    name: {{ include "ironauth.fullname" . }}
{{- end }}

{{/* docs/operate/sizing.md: a worker with 50,000 live tokens has 150 + 147 MiB, and a hash 64; a core for each. */}}
{{- define "ironauth.resources" -}}
{{- if .Values.resources }}
{{- toYaml .Values.resources }}
{{- else }}
{{- $mib := add (mul (int .Values.workers) 297) (mul (int .Values.hashThreads) 64) }}
requests:
  cpu: {{ .Values.workers | quote }}
  memory: {{ printf "%dMi" $mib }}
limits:
  memory: {{ printf "%dMi" (div (mul $mib 3) 2) }}
{{- end }}
{{- end }}

{{- define "ironauth.smallResources" -}}
requests:
  cpu: 100m
  memory: 160Mi
limits:
  memory: 512Mi
{{- end }}

{{/* As the image is made (deploy/Dockerfile): user 10001, and nothing is written outside of the volume. */}}
{{- define "ironauth.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ironauth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What every pod has in common. */}}
{{- define "ironauth.pod" -}}
serviceAccountName: {{ include "ironauth.account" . }}
{{ include "ironauth.podAlone" . }}
{{- end }}

{{- define "ironauth.podAlone" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "ironauth.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: state
    emptyDir:
      sizeLimit: 256Mi
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "ironauth.container" -}}
image: {{ include "ironauth.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "ironauth.containerSecurity" . | nindent 2 }}
volumeMounts:
  - name: state
    mountPath: /var/lib/ironauth
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
