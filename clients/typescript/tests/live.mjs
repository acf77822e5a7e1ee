// Verify a token of the server at ISSUER, and see a changed one refused; each line is what happened.
import { InvalidToken, Verifier } from "../dist/verify.js";

const verifier = new Verifier({ issuer: process.env.ISSUER });
const claims = await verifier.verify(process.env.TOKEN);
console.log("subject", claims.subject);
try {
  await verifier.verify(`${process.env.TOKEN.slice(0, -8)}AAAAAAAA`);
} catch (error) {
  console.log("refused", error instanceof InvalidToken);
}
