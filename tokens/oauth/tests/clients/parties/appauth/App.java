// AppAuth for Android with a client of the kind "Native app", on Java: what it asks and reads is its own, HTTP is Java's.
import android.net.Uri;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import net.openid.appauth.AuthorizationRequest;
import net.openid.appauth.AuthorizationResponse;
import net.openid.appauth.AuthorizationServiceConfiguration;
import net.openid.appauth.AuthorizationServiceDiscovery;
import net.openid.appauth.AuthState;
import net.openid.appauth.EndSessionRequest;
import net.openid.appauth.TokenRequest;
import net.openid.appauth.TokenResponse;
import net.openid.appauth.internal.UriUtil;
import org.json.JSONObject;

public final class App {
    private static final BufferedReader HEARD =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    // begin: SignIn.java
    static AuthorizationRequest request(AuthorizationServiceConfiguration server, String clientId, Uri redirectUri) {
        return new AuthorizationRequest.Builder(server, clientId, "code", redirectUri)
                .setScope("openid profile email offline_access")
                .build();
    }

    /** What performTokenRequest sends on a device, of the intent's data. The test sends it by Java's own HTTP. */
    static TokenRequest redeem(AuthorizationRequest request, Uri data, AuthState state) {
        AuthorizationResponse answer = new AuthorizationResponse.Builder(request).fromUri(data).build();
        state.update(answer, null);
        return answer.createTokenExchangeRequest();
    }
    // end

    private static void say(String name, String value) throws Exception {
        System.out.println(new JSONObject().put(name, value));
    }

    private static void require(boolean truth, String what) {
        if (!truth) throw new IllegalStateException("not so: " + what);
    }

    private static Uri visit(Uri address) throws Exception {
        say("visit", address.toString());
        return Uri.parse(new JSONObject("{\"at\": " + HEARD.readLine() + "}").getString("at"));
    }

    private static HttpResponse<String> get(String address, String... headers) throws Exception {
        var request = HttpRequest.newBuilder(new URI(address));
        if (headers.length > 0) request.headers(headers);
        return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    /** Send a request, and judge the answer as AuthorizationService does; null where it is refused. */
    private static TokenResponse sent(TokenRequest request) throws Exception {
        var form = request.getRequestParameters();
        form.put("client_id", request.clientId);
        var body = HttpRequest.BodyPublishers.ofString(UriUtil.formUrlEncode(form));
        var post = HttpRequest.newBuilder(new URI(request.configuration.tokenEndpoint.toString()))
                .header("Content-Type", "application/x-www-form-urlencoded").POST(body).build();
        var answer = HTTP.send(post, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            require("invalid_grant".equals(new JSONObject(answer.body()).getString("error")), answer.body());
            return null;
        }
        var tokens = new TokenResponse.Builder(request).fromResponseJson(new JSONObject(answer.body())).build();
        if (tokens.idToken != null) validate(tokens.idToken, request);
        return tokens;
    }

    /** Its judge of ID tokens, which it keeps to itself; the issuer here has no https. */
    private static void validate(String text, TokenRequest request) throws Exception {
        Class<?> token = Class.forName("net.openid.appauth.IdToken"), clock = Class.forName("net.openid.appauth.Clock");
        var read = token.getDeclaredMethod("from", String.class);
        var judge = token.getDeclaredMethod("validate", TokenRequest.class, clock, boolean.class);
        read.setAccessible(true);
        judge.setAccessible(true);
        var now = Class.forName("net.openid.appauth.SystemClock").getDeclaredField("INSTANCE");
        now.setAccessible(true);
        judge.invoke(read.invoke(null, text), request, now.get(null), true);
    }

    public static void main(String[] arguments) throws Exception {
        var given = new JSONObject(HEARD.readLine());
        var found = get(given.getString("issuer") + "/.well-known/openid-configuration").body();
        var discovery = new AuthorizationServiceDiscovery(new JSONObject(found));
        var server = new AuthorizationServiceConfiguration(discovery);
        var redirectUri = Uri.parse(given.getString("redirect_uri"));
        var state = new AuthState(server);
        var asked = request(server, given.getString("client_id"), redirectUri);
        var exchange = redeem(asked, visit(asked.toUri()), state);
        var tokens = sent(exchange);
        state.update(tokens, null);
        var who = get(discovery.getUserinfoEndpoint().toString(), "Authorization", "Bearer " + tokens.accessToken);
        require(given.getString("email").equals(new JSONObject(who.body()).getString("email")), "who it is");
        say("passed", "signed in");
        var renewed = sent(state.createTokenRefreshRequest());
        require(!tokens.refreshToken.equals(renewed.refreshToken), "renewed");
        say("passed", "refreshed");
        var gone = Uri.parse(given.getString("gone"));
        var leaving = new EndSessionRequest.Builder(server).setIdTokenHint(tokens.idToken).setPostLogoutRedirectUri(gone);
        require(visit(leaving.build().toUri()).toString().startsWith(gone.toString()), "back at the application");
        say("passed", "signed out");
        require(sent(exchange) == null, "a code is good once");
        say("passed", "refused: a code used twice");
    }
}
