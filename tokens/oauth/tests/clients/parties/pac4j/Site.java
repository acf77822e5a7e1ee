// pac4j with the default client, as filters of a servlet container.
package parties;

import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.pac4j.core.config.Config;
import org.pac4j.core.profile.ProfileManager;
import org.pac4j.jee.context.JEEContext;
import org.pac4j.jee.context.session.JEESessionStore;
import org.pac4j.jee.filter.CallbackFilter;
import org.pac4j.jee.filter.LogoutFilter;
import org.pac4j.jee.filter.SecurityFilter;
import org.pac4j.oidc.client.OidcClient;
import org.pac4j.oidc.config.OidcConfiguration;
import org.pac4j.oidc.profile.OidcProfile;

public final class Site {
  // begin: Security.java
  static Config security(String issuer, String clientId, String clientSecret, String site) {
    var oidc = new OidcConfiguration();
    oidc.setDiscoveryURI(issuer + "/.well-known/openid-configuration");
    oidc.setClientId(clientId);
    oidc.setSecret(clientSecret);
    return new Config(site + "/callback", new OidcClient(oidc));
  }
  // end

  public static void main(String[] arguments) throws Exception {
    var given = System.getenv();
    var site = "http://127.0.0.1:" + given.get("PORT");
    var config = security(given.get("ISSUER"), given.get("CLIENT_ID"), given.get("CLIENT_SECRET"), site);
    var tomcat = new Tomcat();
    tomcat.setBaseDir(new File("tomcat").getAbsolutePath());
    tomcat.setPort(Integer.parseInt(given.get("PORT")));
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    var context = tomcat.addContext("", new File(".").getAbsolutePath());
    filter(context, "security", new SecurityFilter(config, "OidcClient"), "/me", "/refresh");
    filter(context, "callback", new CallbackFilter(config, "/me"), "/callback");
    var leaving = new LogoutFilter(config, site + "/signed-out");
    leaving.setLogoutUrlPattern(".*");
    leaving.setCentralLogout(true);
    filter(context, "logout", leaving, "/logout");
    Tomcat.addServlet(context, "pages", new Pages(config));
    context.addServletMappingDecoded("/", "pages");
    tomcat.start();
    tomcat.getServer().await();
  }

  private static void filter(Context context, String name, Filter filter, String... paths) {
    var definition = new FilterDef();
    definition.setFilterName(name);
    definition.setFilter(filter);
    context.addFilterDef(definition);
    var map = new FilterMap();
    map.setFilterName(name);
    for (var path : paths) map.addURLPattern(path);
    context.addFilterMap(map);
  }

  /** Says who is signed in; at /refresh every access token counts as over. */
  static final class Pages extends HttpServlet {
    private final Config config;

    Pages(Config config) {
      this.config = config;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) {
      var manager = new ProfileManager(new JEEContext(request, response), new JEESessionStore());
      manager.setConfig(config);
      manager.getProfile(OidcProfile.class).ifPresent(person -> {
        if (request.getRequestURI().equals("/refresh")) {
          person.setTokenExpirationAdvance(86_400);
          manager.save(true, person, false);
        }
        response.setHeader("X-Email", person.getEmail());
        response.setHeader("X-Token", person.getAccessToken().getValue());
      });
    }
  }
}
