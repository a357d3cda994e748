import type { Check } from '../finding.ts';
import { shellQuote } from '../phrases.ts';

/** Reports files of a store that other users can read or write. */
export const checkFileMode: Check = ({ report }) => {
  if (report?.kind !== 'sqlite' || process.platform === 'win32') return [];
  const exposed = report.files.filter(({ mode }) => (mode & 0o077) !== 0);
  const [first] = exposed;
  if (first === undefined) return [];
  const others = (first.mode & 0o022) === 0 ? 'read' : 'change';
  return [
    {
      id: 'file-mode',
      level: 'warning',
      sentence: `Other users can ${others} the inputs and results in ${JSON.stringify(first.path)} (mode 0${first.mode.toString(8)}).`,
      remedy: `Run \`chmod 600 ${exposed.map(({ path }) => shellQuote(path)).join(' ')}\`.`,
    },
  ];
};
