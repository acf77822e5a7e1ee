// Sign in and ask who that is with the client of openapi-generator; prints the answer's address and id.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.ironauth.ApiClient;
import org.ironauth.ApiException;
import org.ironauth.api.AccountApi;
import org.ironauth.api.SignInApi;
import org.ironauth.model.MeOut;
import org.ironauth.model.SignInInputRequest;
import org.ironauth.model.TokenPair;

public final class SignIn {
    public static void main(String[] given) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(given[0]);
        String refused = "";
        try {
            sign(client, given[1], "not that one at all");
        } catch (ApiException error) {
            refused = new ObjectMapper().readTree(error.getResponseBody()).get("code").asText();
        }
        TokenPair pair = sign(client, given[1], given[2]);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + pair.getAccessToken()));
        MeOut me = new AccountApi(client).accessMe();
        Map<String, String> said = Map.of("refused", refused, "email", me.getEmail(), "id", me.getId().toString());
        System.out.println(new ObjectMapper().writeValueAsString(said));
    }

    private static TokenPair sign(ApiClient client, String email, String password) throws ApiException {
        return new SignInApi(client).accessSignin(new SignInInputRequest().email(email).password(password), null);
    }
}
