// The official SDK of TypeScript: two protected servers, and a client that knows the address of one.
import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import express from "express";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { z } from "zod";
import { assert, passed, run, visit } from "../../javascript/conversation.mjs";

await run(async ({ issuer, ports, scope, document }) => {
  const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`));
  const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();

  /** Serve a protected server; its address. */
  async function serve(port) {
    const resource = new URL(`http://127.0.0.1:${port}/mcp`);
    async function verifyAccessToken(token) {
      try {
        const { payload } = await jwtVerify(token, keys, { issuer, audience: resource.href });
        return { token, clientId: payload.client_id, scopes: payload.scope.split(" "), expiresAt: payload.exp };
      } catch (error) {
        throw new InvalidTokenError(String(error.code));
      }
    }
    const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(resource);
    const guard = requireBearerAuth({ verifier: { verifyAccessToken }, requiredScopes: [scope], resourceMetadataUrl });
    const app = express();
    app.use(express.json());
    app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: [scope] }));
    app.post("/mcp", guard, async (request, response) => {
      const server = new McpServer({ name: "notes", version: "1" });
      const inputSchema = { a: z.number(), b: z.number() };
      const add = async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }] });
      server.registerTool("add", { inputSchema }, add);
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await server.connect(transport);
      await transport.handleRequest(request, response, request.body);
    });
    await new Promise((listens) => createServer(app).listen(port, "127.0.0.1", listens));
    return resource;
  }

  const [first, second] = [await serve(ports[0]), await serve(ports[1])];
  const kept = {};
  let code;
  const authProvider = {
    clientMetadataUrl: document,
    redirectUrl: "https://app.example.com/callback",
    clientMetadata: {
      client_name: "Agent", redirect_uris: ["https://app.example.com/callback"], token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => (kept.tokens = tokens),
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => (kept.verifier = verifier),
    redirectToAuthorization: async (url) => (code = (await visit(url)).searchParams.get("code")),
  };
  const transport = new StreamableHTTPClientTransport(first, { authProvider });
  let asked;
  await new Client({ name: "agent", version: "1" }).connect(transport).catch((error) => (asked = error));
  assert(asked instanceof UnauthorizedError, `it is asked to sign in: ${asked}`);
  await transport.finishAuth(code);
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(first, { authProvider }));
  const { content } = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  assert(content[0].text === "5", JSON.stringify(content));
  assert(!document || kept.client.client_id === document, JSON.stringify(kept.client));
  passed("reached");
  const headers = {
    authorization: `Bearer ${kept.tokens.access_token}`, "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const answer = await fetch(second, { method: "POST", headers, body });
  assert(answer.status === 401, answer.status);
  assert(answer.headers.get("www-authenticate").includes("resource_metadata="), "it says where its own tokens come from");
  passed("refused at the other server");
});
