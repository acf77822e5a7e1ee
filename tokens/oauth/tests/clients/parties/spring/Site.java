// Spring Security with the default client, and an API of it.
package parties;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.time.Duration;
import java.util.List;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.core.annotation.Order;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.client.OAuth2AuthorizeRequest;
import org.springframework.security.oauth2.client.OAuth2AuthorizedClient;
import org.springframework.security.oauth2.client.RefreshTokenOAuth2AuthorizedClientProvider;
import org.springframework.security.oauth2.client.annotation.RegisteredOAuth2AuthorizedClient;
import org.springframework.security.oauth2.client.oidc.web.logout.OidcClientInitiatedLogoutSuccessHandler;
import org.springframework.security.oauth2.client.registration.ClientRegistrationRepository;
import org.springframework.security.oauth2.client.web.DefaultOAuth2AuthorizedClientManager;
import org.springframework.security.oauth2.client.web.OAuth2AuthorizedClientRepository;
import org.springframework.security.oauth2.core.oidc.user.OidcUser;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.security.oauth2.jwt.JwtAudienceValidator;
import org.springframework.security.oauth2.jwt.JwtDecoder;
import org.springframework.security.oauth2.jwt.JwtIssuerValidator;
import org.springframework.security.oauth2.jwt.JwtTypeValidator;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusJwtDecoder;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Site {
  public static void main(String[] arguments) {
    SpringApplication.run(Site.class, arguments);
  }

  // begin: Site.java
  // application.yaml: spring.security.oauth2.client.provider.ironauth.issuer-uri, and of registration.ironauth
  // client-id, client-secret and scope: openid, profile, email
  @Bean
  SecurityFilterChain people(HttpSecurity http, ClientRegistrationRepository clients) throws Exception {
    var signOut = new OidcClientInitiatedLogoutSuccessHandler(clients);
    signOut.setPostLogoutRedirectUri("{baseUrl}/signed-out");
    return http
        .authorizeHttpRequests(requests -> requests.requestMatchers("/signed-out").permitAll().anyRequest().authenticated())
        .oauth2Login(Customizer.withDefaults())
        .oidcLogout(logout -> logout.backChannel(Customizer.withDefaults()))
        .logout(logout -> logout.logoutSuccessHandler(signOut))
        .build();
  }

  // end

  // begin-api: Api.java
  // A client made with --access-token-alg RS256 gets tokens for this: Spring's decoder does not know Ed25519.
  @Bean
  @Order(1)
  SecurityFilterChain api(HttpSecurity http) throws Exception {
    return http
        .securityMatcher("/api/**")
        .authorizeHttpRequests(requests -> requests.anyRequest().hasAuthority("SCOPE_email"))
        .oauth2ResourceServer(server -> server.jwt(Customizer.withDefaults()))
        .build();
  }

  /** Access tokens have the type at+jwt (RFC 9068), which Spring's own decoder refuses unless it is told. */
  @Bean
  JwtDecoder accessTokens(@Value("${issuer}") String issuer) {
    var decoder = NimbusJwtDecoder.withIssuerLocation(issuer).build();
    decoder.setJwtValidator(JwtValidators.createDefaultWithValidators(List.of(
        new JwtTypeValidator("at+jwt"), new JwtIssuerValidator(issuer), new JwtAudienceValidator(issuer))));
    return decoder;
  }

  // end-api

  @GetMapping("/me")
  void me(@AuthenticationPrincipal OidcUser person, HttpServletResponse response,
      @RegisteredOAuth2AuthorizedClient("ironauth") OAuth2AuthorizedClient client) {
    response.setHeader("X-Email", person.getEmail());
    response.setHeader("X-Token", client.getAccessToken().getTokenValue());
  }

  private final ClientRegistrationRepository clients;
  private final OAuth2AuthorizedClientRepository kept;

  Site(ClientRegistrationRepository clients, OAuth2AuthorizedClientRepository kept) {
    this.clients = clients;
    this.kept = kept;
  }

  @GetMapping("/refresh")
  void refresh(Authentication person, HttpServletRequest request, HttpServletResponse response) {
    var renews = new RefreshTokenOAuth2AuthorizedClientProvider();
    renews.setClockSkew(Duration.ofDays(1)); // as if the access token were over
    var manager = new DefaultOAuth2AuthorizedClientManager(clients, kept);
    manager.setAuthorizedClientProvider(renews);
    manager.authorize(OAuth2AuthorizeRequest.withClientRegistrationId("ironauth").principal(person)
        .attribute(HttpServletRequest.class.getName(), request)
        .attribute(HttpServletResponse.class.getName(), response).build());
  }

  @GetMapping("/signed-out")
  String signedOut() {
    return "signed out";
  }

  @GetMapping("/api/me")
  String api(@AuthenticationPrincipal Jwt token) {
    return token.getSubject();
  }
}
