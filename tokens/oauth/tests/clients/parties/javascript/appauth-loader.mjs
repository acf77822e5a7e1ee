// How a bundler finds AppAuth's modules, and a browser that the test opens.
const BROWSER = "data:text/javascript,export default (url) => globalThis.openBrowser(url);";

export async function resolve(specifier, context, next) {
  if (specifier === "opener") return { url: BROWSER, shortCircuit: true };
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!specifier.startsWith(".")) throw error;
    return await next(`${specifier}.js`, context).catch(() => next(`${specifier}/index.js`, context));
  }
}
