import { nodeVersionProblem } from '../../../require-node.ts';
import type { Check } from '../finding.ts';

/** Reports a Node.js release that Perdure does not support, or that gets no security fixes for long. */
export const checkNodeVersion: Check = ({ nodeVersion }) => {
  const remedy = 'Install the current LTS release of Node.js from https://nodejs.org.';
  const problem = nodeVersionProblem(nodeVersion);
  if (problem !== undefined) {
    return [{ id: 'node-version', level: 'problem', sentence: problem, remedy }];
  }
  const major = Number.parseInt(nodeVersion.replace(/^v/, ''), 10);
  if (major % 2 === 0) return [];
  const sentence = `Node.js ${nodeVersion} is not a long-term support release.`;
  return [{ id: 'node-version', level: 'note', sentence, remedy }];
};
