// Nimbus (oauth2-oidc-sdk) with clients of the profiles of FAPI 2.0.
import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.JWSHeader;
import com.nimbusds.jose.crypto.ECDSASigner;
import com.nimbusds.jose.jwk.Curve;
import com.nimbusds.jose.jwk.ECKey;
import com.nimbusds.jose.jwk.JWK;
import com.nimbusds.jose.jwk.gen.ECKeyGenerator;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.SignedJWT;
import com.nimbusds.oauth2.sdk.AuthorizationCode;
import com.nimbusds.oauth2.sdk.AuthorizationCodeGrant;
import com.nimbusds.oauth2.sdk.AuthorizationGrant;
import com.nimbusds.oauth2.sdk.AuthorizationRequest;
import com.nimbusds.oauth2.sdk.AuthorizationResponse;
import com.nimbusds.oauth2.sdk.PushedAuthorizationRequest;
import com.nimbusds.oauth2.sdk.PushedAuthorizationResponse;
import com.nimbusds.oauth2.sdk.RefreshTokenGrant;
import com.nimbusds.oauth2.sdk.ResponseMode;
import com.nimbusds.oauth2.sdk.ResponseType;
import com.nimbusds.oauth2.sdk.Scope;
import com.nimbusds.oauth2.sdk.TokenRequest;
import com.nimbusds.oauth2.sdk.TokenResponse;
import com.nimbusds.oauth2.sdk.auth.ClientAuthentication;
import com.nimbusds.oauth2.sdk.auth.JWTAuthenticationClaimsSet;
import com.nimbusds.oauth2.sdk.auth.PrivateKeyJWT;
import com.nimbusds.oauth2.sdk.dpop.DefaultDPoPProofFactory;
import com.nimbusds.oauth2.sdk.http.HTTPRequest;
import com.nimbusds.oauth2.sdk.id.Audience;
import com.nimbusds.oauth2.sdk.id.ClientID;
import com.nimbusds.oauth2.sdk.id.Issuer;
import com.nimbusds.oauth2.sdk.id.State;
import com.nimbusds.oauth2.sdk.jarm.JARMValidator;
import com.nimbusds.oauth2.sdk.pkce.CodeChallengeMethod;
import com.nimbusds.oauth2.sdk.pkce.CodeVerifier;
import com.nimbusds.openid.connect.sdk.AuthenticationRequest;
import com.nimbusds.openid.connect.sdk.Nonce;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponse;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponseParser;
import com.nimbusds.openid.connect.sdk.UserInfoRequest;
import com.nimbusds.openid.connect.sdk.UserInfoResponse;
import com.nimbusds.openid.connect.sdk.op.OIDCProviderMetadata;
import com.nimbusds.openid.connect.sdk.token.OIDCTokens;
import com.nimbusds.openid.connect.sdk.validators.IDTokenValidator;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.Map;

public final class Fapi {
    private static final BufferedReader HEARD =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private final OIDCProviderMetadata provider;
    private final ClientID client;
    private final ECKey key;
    private final URI redirectUri;
    private final Nonce nonce = new Nonce();
    private final State state = new State();
    private final CodeVerifier verifier = new CodeVerifier();
    private ECKey bound = new ECKeyGenerator(Curve.P_256).generate();

    private Fapi(Map<String, Object> given, String name) throws Exception {
        provider = OIDCProviderMetadata.resolve(new Issuer((String) given.get("issuer")));
        redirectUri = new URI((String) given.get("redirect_uri"));
        var one = JSONObjectUtils.getJSONObject(given, name);
        client = new ClientID((String) one.get("client_id"));
        key = JWK.parse(JSONObjectUtils.getJSONObject(one, "private_jwk")).toECKey();
    }

    private static void say(String name, String value) {
        System.out.println(JSONObjectUtils.toJSONString(Map.of(name, value)));
    }

    private static void require(boolean truth, String what) {
        if (!truth) throw new IllegalStateException("not so: " + what);
    }

    private static URI visit(URI address) throws Exception {
        say("visit", address.toString());
        return new URI((String) JSONObjectUtils.parse("{\"at\": " + HEARD.readLine() + "}").get("at"));
    }

    /** The issuer is the audience, as one text. */
    private ClientAuthentication assertion() throws Exception {
        var claims = new JWTAuthenticationClaimsSet(client, new Audience(provider.getIssuer()));
        return new PrivateKeyJWT(claims, JWSAlgorithm.ES256, key.toECPrivateKey(), key.getKeyID(), null);
    }

    private HTTPRequest proved(HTTPRequest request) throws Exception {
        var factory = new DefaultDPoPProofFactory(bound, JWSAlgorithm.ES256);
        request.setDPoP(factory.createDPoPJWT(request.getMethod().name(), request.getURI()));
        return request;
    }

    private AuthorizationRequest request(boolean signed) throws Exception {
        var plain = new AuthenticationRequest.Builder(
                        new ResponseType("code"), Scope.parse("openid email offline_access"), client, redirectUri)
                .state(state).nonce(nonce).codeChallenge(verifier, CodeChallengeMethod.S256);
        if (!signed) return plain.build();
        Date now = new Date(), end = new Date(now.getTime() + 300_000);
        var said = new JWTClaimsSet.Builder(plain.responseMode(ResponseMode.JWT).build().toJWTClaimsSet())
                .issuer(client.getValue()).audience(provider.getIssuer().getValue())
                .notBeforeTime(now).expirationTime(end).build();
        var header = new JWSHeader.Builder(JWSAlgorithm.ES256)
                .type(new JOSEObjectType("oauth-authz-req+jwt")).keyID(key.getKeyID()).build();
        var object = new SignedJWT(header, said);
        object.sign(new ECDSASigner(key));
        return new AuthorizationRequest.Builder(object, client).build();
    }

    private URI begin(boolean signed) throws Exception {
        var pushing = new PushedAuthorizationRequest(
                provider.getPushedAuthorizationRequestEndpointURI(), assertion(), request(signed));
        var kept = PushedAuthorizationResponse.parse(proved(pushing.toHTTPRequest()).send());
        require(kept.indicatesSuccess(), "pushed");
        return new AuthorizationRequest.Builder(kept.toSuccessResponse().getRequestURI(), client)
                .endpointURI(provider.getAuthorizationEndpointURI()).build().toURI();
    }

    private TokenResponse asked(AuthorizationGrant grant) throws Exception {
        var request = new TokenRequest.Builder(provider.getTokenEndpointURI(), assertion(), grant).build();
        return OIDCTokenResponseParser.parse(proved(request.toHTTPRequest()).send());
    }

    private AuthorizationCodeGrant grant(URI callback, boolean signed) throws Exception {
        var answer = AuthorizationResponse.parse(callback);
        if (signed) {
            var keys = provider.getJWKSetURI().toURL();
            var validator = new JARMValidator(provider.getIssuer(), client, JWSAlgorithm.ES256, keys);
            var said = validator.validate(answer.getJWTResponse());
            require(state.getValue().equals(said.getStringClaim("state")), "state");
            return new AuthorizationCodeGrant(
                    new AuthorizationCode(said.getStringClaim("code")), redirectUri, verifier);
        }
        require(state.equals(answer.getState()) && provider.getIssuer().equals(answer.getIssuer()), "state and iss");
        return new AuthorizationCodeGrant(answer.toSuccessResponse().getAuthorizationCode(), redirectUri, verifier);
    }

    private OIDCTokens signedIn(String email, boolean signed) throws Exception {
        var response = asked(grant(visit(begin(signed)), signed)).toSuccessResponse();
        var tokens = ((OIDCTokenResponse) response).getOIDCTokens();
        var keys = provider.getJWKSetURI().toURL();
        new IDTokenValidator(provider.getIssuer(), client, JWSAlgorithm.ES256, keys).validate(tokens.getIDToken(), nonce);
        var asking = new UserInfoRequest(provider.getUserInfoEndpointURI(), tokens.getDPoPAccessToken()).toHTTPRequest();
        var factory = new DefaultDPoPProofFactory(bound, JWSAlgorithm.ES256);
        asking.setDPoP(factory.createDPoPJWT("GET", asking.getURI(), tokens.getDPoPAccessToken()));
        var who = UserInfoResponse.parse(asking.send()).toSuccessResponse().getUserInfo();
        require(email.equals(who.getEmailAddress()), "who it is");
        return tokens;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> given = JSONObjectUtils.parse(HEARD.readLine());
        String email = (String) given.get("email");
        var fapi = new Fapi(given, "java");
        OIDCTokens tokens = fapi.signedIn(email, false);
        say("passed", "fapi2: Nimbus");
        require(fapi.asked(new RefreshTokenGrant(tokens.getRefreshToken())).indicatesSuccess(), "refreshed");
        say("passed", "refreshed");
        var other = new Fapi(given, "java");
        URI callback = visit(other.begin(false));
        other.bound = new ECKeyGenerator(Curve.P_256).generate();
        var refused = other.asked(other.grant(callback, false));
        require("invalid_grant".equals(refused.toErrorResponse().getErrorObject().getCode()), "another key is refused");
        say("passed", "refused: another key");
        new Fapi(given, "java_signed").signedIn(email, true);
        say("passed", "fapi2-message-signing: Nimbus");
    }
}
