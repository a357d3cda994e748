import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import type { ReadonlySignal } from '@preact/signals';
import { call } from '../../api/call.ts';
import { Icon } from '../../components/icon.tsx';
import { useResource } from '../../state/resource.ts';
import { query, setQuery } from '../../state/router.ts';
import { formatCount, formatNumber } from '../../words/format.ts';
import { statusWords, storedStatuses, type StoredStatus } from '../../words/status.ts';
import { matchingCount } from '../../state/view-counts.ts';
import { statusesIn, toConditions } from './filter.ts';

const cap = 10_000;
const refreshMs = 5_000;

interface Count {
  readonly count: number;
  readonly capped: boolean;
}

/** Counts by status that follow the other conditions. Each is a switch. */
export function StatusBar({
  newCount,
  onShowNew,
}: {
  readonly newCount: ReadonlySignal<number>;
  readonly onShowNew: () => void;
}): JSX.Element {
  const others = new URLSearchParams(query.value);
  others.delete('status');
  const counts = useResource(
    `counts ${others.toString()}`,
    async (signal) => {
      const conditions = toConditions(query.peek(), { withStatus: false });
      const all = await Promise.all(
        storedStatuses.map(async (status) => {
          const count = await call(
            'countInstances',
            { query: { ...conditions, status: [status], cap } },
            signal,
          );
          return [status, count] as const;
        }),
      );
      return new Map<StoredStatus, Count>(all);
    },
    { everyMs: refreshMs },
  );
  const chosen = statusesIn(query.value);
  const known = counts.data.value;
  const matching =
    known === undefined
      ? undefined
      : sum(
          [...known]
            .filter(([status]) => chosen.length === 0 || chosen.includes(status))
            .map(([, count]) => count),
        );
  useEffect(() => {
    matchingCount.value = matching;
    return () => {
      matchingCount.value = undefined;
    };
  }, [matching?.count, matching?.capped]);
  const toggle = (status: StoredStatus): void => {
    setQuery({
      status: chosen.includes(status)
        ? chosen.filter((one) => one !== status)
        : [...chosen, status],
    });
  };
  return (
    <div class="stbar" role="group" aria-label="Status">
      {storedStatuses
        .filter(
          (status) =>
            !['skipped', 'expired'].includes(status) || (known?.get(status)?.count ?? 0) > 0,
        )
        .map((status) => {
          const count = known?.get(status);
          return (
            <button
              key={status}
              type="button"
              aria-pressed={chosen.includes(status)}
              data-st={status}
              onClick={() => toggle(status)}
            >
              <Icon name={statusWords[status].icon} />
              {statusWords[status].word}
              <span>{count === undefined ? '' : formatCount(count)}</span>
            </button>
          );
        })}
      <span class="sum" role="status">
        <NewPill newCount={newCount} onShowNew={onShowNew} />
        {matching !== undefined && (
          <>
            <b>{formatCount(matching)}</b> match
          </>
        )}
      </span>
    </div>
  );
}

/** How many instances were created since the list was read. Shows them. */
export function NewPill({
  newCount,
  onShowNew,
  class: className = '',
}: {
  readonly newCount: ReadonlySignal<number>;
  readonly onShowNew: () => void;
  readonly class?: string;
}): JSX.Element | null {
  if (newCount.value === 0) return null;
  return (
    <button class={`newpill ${className}`} type="button" onClick={onShowNew}>
      <Icon name="up" />
      {`${newCount.value >= 100 ? '100+' : formatNumber(newCount.value)} new`}
    </button>
  );
}

function sum(counts: readonly Count[]): Count {
  return {
    count: counts.reduce((total, { count }) => total + count, 0),
    capped: counts.some(({ capped }) => capped),
  };
}
