// An OpenID Connect issuer that others wrote: oidc-provider, with its own forms for signing in.
// node oidc-issuer.mjs DIRECTORY CALLBACK SECRET prints its address. It lives until its input ends.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [directory, callback, secret] = process.argv.slice(2);
const require = createRequire(`${directory}/node_modules/`);
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const server = createServer().listen(0, "127.0.0.1");
await new Promise((done) => server.once("listening", done));
// The server is at 127.0.0.1, so that the issuer is another site.
const issuer = `http://localhost:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{ client_id: "prowess", client_secret: secret, redirect_uris: [callback] }],
  claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email", "email_verified"] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.com`, email_verified: true }),
  }),
});
server.on("request", provider.callback());
console.log(issuer);
process.stdin.resume().on("end", () => process.exit(0));
