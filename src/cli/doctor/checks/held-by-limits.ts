import type { LimitsInfo } from '../../../client/managing/limits.ts';
import { formatDuration } from '../../text/format.ts';
import { limitsText } from '../../text/limits.ts';
import { attentionOf, type Check, type Examination, type LimitsOfQueue } from '../finding.ts';
import { examples, shellQuote } from '../phrases.ts';

/** Reports queues whose oldest entry has waited for more than a minute because a limit is reached. */
export const checkHeldByLimits: Check = (examination) => {
  const held = queuesHeldByLimits(examination);
  const [first] = held;
  if (first === undefined) return [];
  const nowMs = examination.reads?.attention.at ?? 0;
  const names = held.map(
    ({ limits: { kind, name, effective, running }, oldestReadyAt }) =>
      `${kind} ${JSON.stringify(name)} (${limitsText(effective)}; ${running} run, the oldest waits since ${formatDuration(nowMs - (oldestReadyAt ?? nowMs))})`,
  );
  const { kind, name, effective } = first.limits;
  const definition = `${shellQuote(name)} --kind ${kind}`;
  return [
    {
      id: 'held-by-limits',
      level: 'note',
      sentence: `${held.length === 1 ? '1 definition waits' : `${held.length} definitions wait`} for places or a rate: ${examples(names)}.`,
      remedy: `\`perdure limits show ${definition} ${examination.selector}\` shows its keys. If the resource allows more, raise the limit: \`perdure limits set ${definition} ${doubled(effective)} ${examination.selector}\`.`,
    },
  ];
};

/** The options of `limits set` that double each limit. */
function doubled({ global, perKey, rate }: LimitsInfo['effective']): string {
  const options = [
    ...(global == null ? [] : [`--global ${2 * global}`]),
    ...(perKey == null ? [] : [`--per-key ${2 * perKey}`]),
    ...(rate == null
      ? []
      : [
          `--rate ${2 * rate.limit}/${rate.perMs}ms`,
          ...(rate.perKey ? ['--rate-per-key'] : []),
          ...(rate.burst === 0 ? [] : [`--burst ${rate.burst}`]),
        ]),
  ];
  return options.join(' ');
}

/** The old queues of definitions whose limits are reached. Free places without a run need workers instead. */
export function queuesHeldByLimits(examination: Examination): readonly {
  readonly limits: LimitsInfo;
  readonly oldestReadyAt: number | null;
}[] {
  const queues = attentionOf(examination, 'oldQueues')?.queues ?? [];
  const all = examination.reads?.limitsOfOldQueues ?? [];
  const nowMs = examination.reads?.attention.at ?? 0;
  return queues.flatMap(({ kind, name, oldestReadyAt }) => {
    const limits = all.find((one) => one.kind === kind && one.name === name);
    return limits !== undefined && isReached(limits, nowMs) ? [{ limits, oldestReadyAt }] : [];
  });
}

function isReached(limits: LimitsOfQueue, nowMs: number): boolean {
  const { effective, running, nextTokenAt = 0, holdsKey } = limits;
  return (
    running >= (effective.global ?? Number.POSITIVE_INFINITY) || nextTokenAt > nowMs || holdsKey
  );
}
