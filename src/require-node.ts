/**
 * Throws on a Node.js version that is too old. Every entry point imports this module first. Imports are evaluated in order,
 * so the user gets this error and not a loader error of a native module.
 */
const OLDEST_MAJOR = 22;

/** Returns why Perdure cannot run on this Node.js version; `undefined` if it can. */
export function nodeVersionProblem(version: string): string | undefined {
  const major = Number.parseInt(version.replace(/^v/, ''), 10);
  if (major >= OLDEST_MAJOR) return undefined;
  return `Perdure needs Node.js ${OLDEST_MAJOR} or newer; this is ${version}. Install a newer Node.js and start again.`;
}

const problem = nodeVersionProblem(process.version);
if (problem !== undefined) throw new Error(problem);
