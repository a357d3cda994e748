import { instanceStatuses, isTerminal } from '../../../model/status.ts';
import type { Check } from '../finding.ts';
import { formatBytes } from '../../text/format.ts';
import { counted } from '../phrases.ts';

/** Reports a large store that keeps ended instances forever. */
export const checkRetention: Check = ({ reads, selector, limits }) => {
  if (reads === undefined) return [];
  const { metrics, retention } = reads;
  const ended = instanceStatuses.filter(isTerminal);
  const count = ended.reduce((sum, status) => sum + metrics.instances[status], 0);
  const isLarge = count >= limits.largeInstances || metrics.storageBytes >= limits.largeBytes;
  if (!isLarge) return [];
  const size = `The store keeps ${counted({ count }, 'ended instance')} and has ${formatBytes(metrics.storageBytes)}`;
  const preview = `perdure delete --status completed --ended-before 30d --dry-run ${selector}`;
  if (retention.paused !== null) {
    const sentence = `${size}, and retention is paused.`;
    const remedy = `Run \`perdure retention resume ${selector}\`.`;
    return [{ id: 'retention-paused', level: 'warning', sentence, remedy }];
  }
  if (retention.policies !== null) return [];
  return [
    {
      id: 'retention-off',
      level: 'warning',
      sentence: `${size}, and no worker has a retention policy.`,
      remedy: `Set the worker option \`retention\`. To count what a deletion would remove now, run \`${preview}\`.`,
    },
  ];
};
