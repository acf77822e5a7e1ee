#!/bin/sh
# Draw the secrets of a new installation: sh deploy/make-secrets.sh HOST_NAME [FOLDER [POOLER]]
#   HOST_NAME  the public name, e.g. id.example.com
#   FOLDER     where they go, mode 0700 (default: secrets beside this file, where compose.yaml looks)
#   POOLER     host:port of PgBouncer (default: pgbouncer:6432, as in compose.yaml; on one machine 127.0.0.1:6432)
# Existing files are never replaced: they hold the only copy of the keys that open what the database stores.
set -eu
host=${1:?the public host name, e.g. id.example.com}
folder=${2:-$(dirname "$0")/secrets}
pooler=${3:-pgbouncer:6432}
umask 077
set -C

# $1 random bytes as base64url, which needs no escapes in a URL or a file of settings
random() { head -c "$1" /dev/urandom | base64 | tr -d '\n=' | tr '+/' '-_'; }

mkdir -p "$folder"
cd "$folder"
for file in env userlist.txt database-password postgres-password; do
    if [ -e "$file" ]; then
        echo "$(pwd)/$file is there already, and nothing was replaced: use what is there, or name another FOLDER." >&2
        exit 1
    fi
done
chmod 700 .
database=$(random 32)
cat >env <<END
# IronAuth's settings. Every variable: deploy/env.example
DEBUG=0
SECRET_KEY=$(random 48)
IRONAUTH_MASTER_KEYS=k1:$(random 32)
IRONAUTH_PASSWORD_PEPPERS=p1:$(random 32)
ALLOWED_HOSTS=$host
IRONAUTH_ISSUER=https://$host
IRONAUTH_TRUSTED_PROXIES=unix
DATABASE_URL=postgres://ironauth:$database@$pooler/ironauth
REDIS_URL=unix:///run/redis/redis.sock
IRONAUTH_STAFF_MFA=required
IRONAUTH_MAIL_DELIVERY=worker
# Without a mail server nobody receives what is sent, and no address is proved:
# smtp+tls://user:password@mail.example.com:587
#EMAIL_URL=
END
printf '"ironauth" "%s"\n' "$database" >userlist.txt
printf '%s' "$database" >database-password
printf '%s' "$(random 32)" >postgres-password
# The folder is closed; its files are mounted one by one into containers, whose users are others.
chmod 644 userlist.txt database-password postgres-password
echo "Made $(pwd)/env, userlist.txt, database-password and postgres-password: keep a copy of env apart from backups."
