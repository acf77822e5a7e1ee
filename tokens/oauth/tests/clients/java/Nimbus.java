// Nimbus (oauth2-oidc-sdk) with the default client.
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jwt.JWTParser;
import com.nimbusds.oauth2.sdk.AuthorizationCode;
import com.nimbusds.oauth2.sdk.AuthorizationCodeGrant;
import com.nimbusds.oauth2.sdk.AuthorizationGrant;
import com.nimbusds.oauth2.sdk.RefreshTokenGrant;
import com.nimbusds.oauth2.sdk.ResponseType;
import com.nimbusds.oauth2.sdk.Scope;
import com.nimbusds.oauth2.sdk.TokenRequest;
import com.nimbusds.oauth2.sdk.TokenRevocationRequest;
import com.nimbusds.oauth2.sdk.auth.ClientSecretBasic;
import com.nimbusds.oauth2.sdk.auth.Secret;
import com.nimbusds.oauth2.sdk.id.ClientID;
import com.nimbusds.oauth2.sdk.id.Issuer;
import com.nimbusds.oauth2.sdk.id.State;
import com.nimbusds.oauth2.sdk.pkce.CodeChallengeMethod;
import com.nimbusds.oauth2.sdk.pkce.CodeVerifier;
import com.nimbusds.oauth2.sdk.token.Tokens;
import com.nimbusds.openid.connect.sdk.AuthenticationRequest;
import com.nimbusds.openid.connect.sdk.AuthenticationResponseParser;
import com.nimbusds.openid.connect.sdk.LogoutRequest;
import com.nimbusds.openid.connect.sdk.Nonce;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponse;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponseParser;
import com.nimbusds.openid.connect.sdk.UserInfoRequest;
import com.nimbusds.openid.connect.sdk.UserInfoResponse;
import com.nimbusds.openid.connect.sdk.claims.UserInfo;
import com.nimbusds.openid.connect.sdk.op.OIDCProviderMetadata;
import com.nimbusds.openid.connect.sdk.token.OIDCTokens;
import com.nimbusds.openid.connect.sdk.validators.IDTokenValidator;
import com.nimbusds.openid.connect.sdk.validators.LogoutTokenValidator;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;

public final class Nimbus {
    // begin: SignIn.java
    static class SignIn {
        final OIDCProviderMetadata provider;
        final ClientID client;
        final Secret secret;
        final URI redirectUri;
        final State state = new State();
        final Nonce nonce = new Nonce();
        final CodeVerifier verifier = new CodeVerifier();

        SignIn(String issuer, String clientId, String clientSecret, URI redirectUri) throws Exception {
            this.provider = OIDCProviderMetadata.resolve(new Issuer(issuer));
            this.client = new ClientID(clientId);
            this.secret = new Secret(clientSecret);
            this.redirectUri = redirectUri;
        }

        URI begin() {
            return new AuthenticationRequest.Builder(
                            new ResponseType("code"), Scope.parse("openid profile email"), client, redirectUri)
                    .endpointURI(provider.getAuthorizationEndpointURI())
                    .state(state)
                    .nonce(nonce)
                    .codeChallenge(verifier, CodeChallengeMethod.S256)
                    .build()
                    .toURI();
        }

        UserInfo finish(URI callback, JWSAlgorithm algorithm) throws Exception {
            var answer = AuthenticationResponseParser.parse(callback).toSuccessResponse();
            if (!state.equals(answer.getState())) throw new IllegalStateException("another state");
            AuthorizationCode code = answer.getAuthorizationCode();
            var grant = new AuthorizationCodeGrant(code, redirectUri, verifier);
            var request = new TokenRequest(provider.getTokenEndpointURI(), new ClientSecretBasic(client, secret), grant);
            var response = OIDCTokenResponseParser.parse(request.toHTTPRequest().send());
            var tokens = ((OIDCTokenResponse) response.toSuccessResponse()).getOIDCTokens();
            var keys = provider.getJWKSetURI().toURL();
            new IDTokenValidator(provider.getIssuer(), client, algorithm, keys).validate(tokens.getIDToken(), nonce);
            var asked = new UserInfoRequest(provider.getUserInfoEndpointURI(), tokens.getBearerAccessToken());
            return UserInfoResponse.parse(asked.toHTTPRequest().send()).toSuccessResponse().getUserInfo();
        }
    }
    // end

    private static final BufferedReader HEARD =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private static void say(String name, String value) {
        System.out.println(JSONObjectUtils.toJSONString(Map.of(name, value)));
    }

    /** Send the person's browser to an address; return where at the client it ended. */
    private static URI visit(URI address) throws Exception {
        say("visit", address.toString());
        String line = HEARD.readLine();
        return new URI((String) JSONObjectUtils.parse("{\"at\": " + line + "}").get("at"));
    }

    private static SignIn made(Map<String, Object> given) throws Exception {
        String[] told = new String[4];
        String[] names = {"issuer", "client_id", "client_secret", "redirect_uri"};
        for (int i = 0; i < names.length; i++) told[i] = (String) given.get(names[i]);
        return new SignIn(told[0], told[1], told[2], new URI(told[3]));
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> given = JSONObjectUtils.parse(HEARD.readLine());
        if (Boolean.TRUE.equals(given.get("plain"))) {
            plain(given);
            return;
        }
        SignIn first = made(given);
        UserInfo person = first.finish(visit(first.begin()), JWSAlgorithm.RS256);
        if (!given.get("email").equals(person.getEmailAddress())) throw new IllegalStateException("who it is");
        say("passed", "signed in");
        SignIn other = made(given);
        URI back = visit(other.begin());
        try {
            other.finish(back, JWSAlgorithm.ES256);
        } catch (com.nimbusds.jose.proc.BadJOSEException error) {
            if (!error.getMessage().contains("algorithm")) throw error;
            say("passed", "refused: another algorithm");
            if (Boolean.TRUE.equals(given.get("whole"))) whole(given);
            return;
        }
        throw new IllegalStateException("another algorithm was not refused");
    }

    /** Sign in without PKCE, with a client of the profile oidc. */
    private static void plain(Map<String, Object> given) throws Exception {
        SignIn with = made(given);
        var scope = Scope.parse("openid profile email");
        var request = new AuthenticationRequest.Builder(new ResponseType("code"), scope, with.client, with.redirectUri)
                .endpointURI(with.provider.getAuthorizationEndpointURI())
                .state(with.state)
                .nonce(with.nonce)
                .build();
        var answer = AuthenticationResponseParser.parse(visit(request.toURI())).toSuccessResponse();
        var code = answer.getAuthorizationCode();
        var tokens = (OIDCTokens) asked(with, new AuthorizationCodeGrant(code, with.redirectUri));
        var keys = with.provider.getJWKSetURI().toURL();
        var validator = new IDTokenValidator(with.provider.getIssuer(), with.client, JWSAlgorithm.RS256, keys);
        validator.validate(tokens.getIDToken(), with.nonce);
        say("passed", "signed in");
    }

    /** Sign in once more; return the tokens. */
    private static OIDCTokens tokens(SignIn with) throws Exception {
        var answer = AuthenticationResponseParser.parse(visit(with.begin())).toSuccessResponse();
        return (OIDCTokens) asked(with, new AuthorizationCodeGrant(answer.getAuthorizationCode(), with.redirectUri, with.verifier));
    }

    /** Ask the token endpoint. */
    private static Tokens asked(SignIn with, AuthorizationGrant grant) throws Exception {
        var known = new ClientSecretBasic(with.client, with.secret);
        var request = new TokenRequest(with.provider.getTokenEndpointURI(), known, grant);
        var response = OIDCTokenResponseParser.parse(request.toHTTPRequest().send());
        if (!response.indicatesSuccess()) throw new IllegalStateException(response.toErrorResponse().getErrorObject().getCode());
        return response.toSuccessResponse().getTokens();
    }

    /** Renew, revoke, sign out, and hear of a sign-out. */
    private static void whole(Map<String, Object> given) throws Exception {
        SignIn with = made(given);
        var renewed = asked(with, new RefreshTokenGrant(tokens(with).getRefreshToken())).getRefreshToken();
        say("passed", "refreshed");
        var known = new ClientSecretBasic(with.client, with.secret);
        var revoke = new TokenRevocationRequest(with.provider.getRevocationEndpointURI(), known, renewed);
        if (revoke.toHTTPRequest().send().getStatusCode() != 200) throw new IllegalStateException("revocation");
        try {
            asked(with, new RefreshTokenGrant(renewed));
            throw new AssertionError("not revoked");
        } catch (IllegalStateException error) {
            if (!"invalid_grant".equals(error.getMessage())) throw error;
        }
        say("passed", "revoked");
        with = made(given);
        var gone = new URI((String) given.get("gone"));
        var leaving = new LogoutRequest(with.provider.getEndSessionEndpointURI(), tokens(with).getIDToken(), gone, with.state);
        if (!visit(leaving.toURI()).toString().equals(gone + "?state=" + with.state)) throw new IllegalStateException("not back");
        say("passed", "signed out");
        with = made(given);
        String subject = tokens(with).getIDToken().getJWTClaimsSet().getSubject();
        System.out.println("{\"sign_out\": true}");
        String token = (String) JSONObjectUtils.parse("{\"at\": " + HEARD.readLine() + "}").get("at");
        var keys = with.provider.getJWKSetURI().toURL();
        var validator = new LogoutTokenValidator(with.provider.getIssuer(), with.client, JWSAlgorithm.RS256, keys);
        if (!validator.validate(JWTParser.parse(token)).getSubject().getValue().equals(subject))
            throw new IllegalStateException("told of somebody else");
        say("passed", "told of a sign-out");
    }
}
