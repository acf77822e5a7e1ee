// Kept in a file because the page's policy allows no inline script.
SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#documentation",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false, // a token belongs in memory, not in the browser's storage
  validatorUrl: null, // no outside service is asked
});
