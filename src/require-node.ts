/**
 * Refuses a Node.js that is too old. Every entry point imports this module first: imports evaluate in
 * order, so the reader sees this sentence and not a loader error of the native module behind it.
 */
const OLDEST_MAJOR = 22;

/** The sentence that tells why this Node.js version cannot run Perdure, or undefined if it can. */
export function nodeVersionProblem(version: string): string | undefined {
  const major = Number.parseInt(version.replace(/^v/, ''), 10);
  if (major >= OLDEST_MAJOR) return undefined;
  return `Perdure needs Node.js ${OLDEST_MAJOR} or newer; this is ${version}. Install a newer Node.js and start again.`;
}

const problem = nodeVersionProblem(process.version);
if (problem !== undefined) throw new Error(problem);
