import type { ComponentChildren, JSX } from 'preact';
import type { ResponseBody } from '../../api/operations.ts';
import { Icon, type IconName } from '../../components/icon.tsx';
import { Ago, Sentence } from '../../components/text.tsx';
import { href, instanceHref } from '../../state/router.ts';
import { formatAge, formatNumber, plural } from '../../words/format.ts';
import { ago } from '../../words/sentence.ts';
import type { Tone } from '../../words/status.ts';

type Finding = ResponseBody<'getAttention'>['findings'][number];

interface FindingRow {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly what: string;
  readonly detail: ComponentChildren;
  readonly since?: number;
  readonly href: string;
  /** The word of the link. */
  readonly action: string;
}

/** What needs attention, the most urgent first. */
export function Findings({ findings }: { readonly findings: readonly Finding[] }): JSX.Element {
  return (
    <>
      {findings.map((finding) => {
        const row = toRow(finding);
        return (
          <a key={finding.kind} class="att" data-st={row.tone} href={row.href}>
            <Icon name={row.icon} />
            <span class="what">{row.what}</span>
            <span class="det cut">{row.detail}</span>
            <span class="since">{row.since !== undefined && <Ago at={row.since} />}</span>
            <span class="act link">{row.action}</span>
          </a>
        );
      })}
    </>
  );
}

function toRow(finding: Finding): FindingRow {
  const number =
    'capped' in finding && finding.capped
      ? `${formatNumber(finding.count)}+`
      : formatNumber(finding.count);
  const since =
    'oldestAt' in finding && finding.oldestAt !== undefined ? { since: finding.oldestAt } : {};
  switch (finding.kind) {
    case 'blocked': {
      const [first] = finding.instances;
      return {
        ...since,
        tone: 'blocked',
        icon: 'blocked',
        what: `${number} ${finding.count === 1 ? 'instance' : 'instances'} blocked`,
        detail: (
          <>
            <bdi>{first?.name}</bdi>:{' '}
            <Sentence>{lowerFirst((first?.text ?? '').replace(/^Blocked: /, ''))}</Sentence>
          </>
        ),
        href:
          finding.count === 1 && first !== undefined
            ? instanceHref(first.id)
            : href(['instances'], 'blocked=yes'),
        action: 'Inspect',
      };
    }
    case 'failed':
      return {
        ...since,
        tone: 'failed',
        icon: 'failed',
        what: `${number} failed in the last hour`,
        detail: finding.groups.map(({ code, error, name, count }, index) => (
          <span key={index}>
            {index > 0 && ', '}
            {formatNumber(count)} ×{' '}
            <code>
              <bdi>{code ?? error}</bdi>
            </code>{' '}
            in <bdi>{name}</bdi>
          </span>
        )),
        href: href(['instances'], 'status=failed&ended=1h'),
        action: 'Review',
      };
    case 'unclaimed': {
      const [first] = finding.work;
      return {
        ...since,
        tone: 'failed',
        icon: 'warning',
        what: `${plural(finding.count, 'definition')} without a worker`,
        detail: (
          <>
            <bdi>{first?.name}</bdi>: no live worker has it registered.{' '}
            {formatNumber(first?.waiting ?? 0)} waiting, the oldest for{' '}
            {formatAge(first?.dueForMs ?? 0)}
          </>
        ),
        href: href(['workers']),
        action: 'Show',
      };
    }
    case 'leaked': {
      const [first] = finding.workers;
      return {
        tone: 'retrying',
        icon: 'warning',
        what: plural(finding.count, 'leaked handler'),
        detail: (
          <>
            On <bdi>{first?.name}</bdi>: still running after the cancel and its grace
          </>
        ),
        href: href(['instances'], 'leaked=yes'),
        action: 'Show',
      };
    }
    case 'staleWorkers': {
      const [first] = finding.workers;
      return {
        ...since,
        tone: 'retrying',
        icon: 'warning',
        what: plural(finding.count, 'stale worker'),
        detail: (
          <>
            <bdi>{first?.name}</bdi> on <bdi>{first?.host}</bdi> was last seen{' '}
            {ago(first?.lastSeenAt ?? 0)}
          </>
        ),
        href: href(['workers']),
        action: 'Show',
      };
    }
    case 'lateSchedules': {
      const [first] = finding.schedules;
      return {
        ...since,
        tone: 'retrying',
        icon: 'clock',
        what: plural(finding.count, 'late schedule'),
        detail:
          first?.reason === 'overlap' ? (
            <>
              <bdi>{first.name}</bdi> skips ticks: its last run has not ended
            </>
          ) : (
            <>
              <bdi>{first?.name}</bdi> was due {ago(first?.since ?? 0)}
            </>
          ),
        href: href(['schedules'], new URLSearchParams({ schedule: first?.name ?? '' })),
        action: 'Show',
      };
    }
    case 'oldQueues': {
      const [first] = finding.queues;
      return {
        ...since,
        tone: 'retrying',
        icon: 'queue',
        what: `${plural(finding.count, 'queue')} with old work`,
        detail: (
          <>
            <bdi>{first?.name}</bdi>: {formatNumber(first?.ready ?? 0)} waiting,{' '}
            {formatNumber(first?.workers ?? 0)} workers can run it
          </>
        ),
        href: href(['queues']),
        action: 'Show',
      };
    }
    case 'pausedDefinitions': {
      const [first] = finding.definitions;
      return {
        ...since,
        tone: 'paused',
        icon: 'paused',
        what: plural(finding.count, 'paused definition'),
        detail: (
          <>
            <bdi>{first?.name}</bdi>
            {first?.reason !== undefined && (
              <>
                : <bdi>{first.reason}</bdi>
              </>
            )}
          </>
        ),
        href: href(['queues']),
        action: 'Show',
      };
    }
    default:
      return finding satisfies never;
  }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
