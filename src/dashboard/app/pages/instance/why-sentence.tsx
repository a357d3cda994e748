import { Fragment, type ComponentChildren, type JSX } from 'preact';
import { Sentence } from '../../components/text.tsx';
import { instanceHref } from '../../state/router.ts';
import { plural } from '../../words/format.ts';
import { periodText } from '../../words/limits.ts';
import { ago, moment, since, until } from '../../words/sentence.ts';
import { versionText } from '../../words/version.ts';
import type { Why } from './instance-data.ts';
import type { Wait, WorkWait } from './waits.ts';

/** A sentence, and what follows from it. */
export interface Told {
  readonly sentence: ComponentChildren;
  readonly consequence?: ComponentChildren;
}

/** Says why an instance is in its state. Times are relative to now and tick. */
export function tellWhy(wait: Wait | undefined, why: Why): Told {
  if (wait === undefined) return { sentence: <Sentence>{why.text}</Sentence> };
  const told = tell(wait, why);
  const isAlone = ['ended', 'blocked', 'paused', 'cancel'].includes(wait.kind);
  const rest = isAlone ? undefined : restOf(wait, why);
  return { sentence: told.sentence, consequence: joined(told.consequence, rest) };
}

function tell(wait: Wait, why: Why): Told {
  switch (wait.kind) {
    case 'activity':
    case 'task':
    case 'onFail':
      return tellWork(wait);
    case 'ended':
      return tellEnd(wait);
    case 'blocked':
      return tellBlocked(wait);
    case 'paused':
      return tellPaused(wait);
    case 'cancel':
      return tellCancel(wait, why);
    case 'worker':
      return tellWorker(wait);
    case 'turn':
      return {
        sentence: (
          <>
            Runs a turn
            {wait.claimedAt !== undefined && (
              <>
                {' '}
                for <b>{since(wait.claimedAt)}</b>
              </>
            )}
            {onWorker(wait.worker)}.
          </>
        ),
        consequence:
          'If the worker crashes, another one claims the instance when the lease expires.',
      };
    case 'delay':
      return {
        sentence: (
          <>
            A worker released it; the next claim is possible <b>{until(wait.until)}</b>.
          </>
        ),
        consequence: 'The turn was not committed and runs again. Nothing is lost.',
      };
    case 'start':
      return {
        sentence: (
          <>
            Starts <b>{until(wait.startsAt)}</b>: its start was delayed.
          </>
        ),
        ...(wait.unclaimed === 'noWorker' && {
          consequence: 'No live worker has its code. Start one before.',
        }),
      };
    case 'debounced':
      return {
        sentence: (
          <>
            Debounced by key <bdi>{wait.key}</bdi>: starts <b>{until(wait.startsAt)}</b>, moved{' '}
            {wait.moves} {wait.moves === 1 ? 'time' : 'times'}.
          </>
        ),
        consequence: 'A further start with the key moves it again, and replaces its input.',
      };
    case 'place':
      return {
        sentence: (
          <>
            Waits to begin: <b>{wait.running}</b> instances of <bdi>{wait.name}</bdi> have begun,
            and its limits allow no more
            {wait.key !== undefined && (
              <>
                {' '}
                of key <bdi>{wait.key}</bdi>
              </>
            )}
            .
          </>
        ),
        consequence: 'It begins when one of them has ended, or when the limit is raised.',
      };
    case 'child':
      return tellChild(wait);
    case 'detached':
      return {
        sentence: (
          <>
            Starts the detached instance <InstanceLink id={wait.id} name={wait.name} />.
          </>
        ),
        consequence: 'It continues as soon as the start is confirmed.',
      };
    case 'event':
      return tellEvent(wait, why);
    case 'awakeable':
      return {
        sentence: <>Waits for the answer to an awakeable.</>,
        consequence: 'A caller with its token can answer. It uses no worker while it waits.',
      };
    case 'update':
      return {
        sentence: (
          <>
            Runs the handler of update{' '}
            <b>
              <bdi>{wait.name}</bdi>
            </b>
            .
          </>
        ),
        consequence: 'Its caller waits for the reply.',
      };
    case 'timer':
      return {
        sentence: (
          <>
            Sleeps until <b>{moment(wait.fireAt)}</b>: the timer fires <b>{until(wait.fireAt)}</b>.
          </>
        ),
        consequence: 'It uses no worker while it sleeps.',
      };
    case 'job':
      return {
        sentence: (
          <>
            Runs as a job of the session{' '}
            <b>
              <bdi>{wait.sessionId}</bdi>
            </b>
            , which is {wait.sessionState}.
          </>
        ),
        consequence:
          wait.abandonedAt === undefined
            ? `The session ends ${until(wait.expiresAt)} unless its client renews it.`
            : `No caller has taken the result for ${since(wait.abandonedAt)}.`,
      };
    default:
      return { sentence: <Sentence>{`${why.short}.`}</Sentence> };
  }
}

/** The attempt and its limit: `attempt 4 of 8`. */
function attemptsOf({ attempt, maxAttempts }: WorkWait): string {
  return maxAttempts === undefined ? `attempt ${attempt}` : `attempt ${attempt} of ${maxAttempts}`;
}

function nameOfWork(wait: WorkWait): JSX.Element {
  const step = 'step' in wait ? wait.step : undefined;
  // The name of the activity that calls a task has a prefix.
  const name = wait.kind === 'activity' ? wait.name.replace(/^task:/, '') : wait.name;
  return <Strong>{step ?? name}</Strong>;
}

function tellWork(wait: WorkWait): Told {
  const name = nameOfWork(wait);
  switch (wait.state) {
    case 'retrying':
      return {
        sentence: (
          <>
            Retrying {name}: attempt <b>{attemptsOf(wait).slice('attempt '.length)}</b> starts{' '}
            <b>{wait.nextTryAt === undefined ? 'soon' : until(wait.nextTryAt)}</b>.
            {wait.lastFailure !== undefined && (
              <>
                {' '}
                Attempt {Math.max(1, wait.attempt - 1)} failed with{' '}
                <Code>{wait.lastFailure.message}</Code>.
              </>
            )}
          </>
        ),
        consequence: retryConsequence(wait),
      };
    case 'running':
      return {
        sentence: (
          <>
            Runs {name}
            {wait.claimedAt !== undefined && (
              <>
                {' '}
                for <b>{since(wait.claimedAt)}</b>
              </>
            )}
            {onWorker(wait.worker)}
            {wait.attempt > 1 && `, ${attemptsOf(wait)}`}.
          </>
        ),
        consequence: joined(
          wait.lastFailure === undefined ? undefined : (
            <>
              Attempt {Math.max(1, wait.attempt - 1)} failed with{' '}
              <Code>{wait.lastFailure.message}</Code>.
            </>
          ),
          wait.heartbeatAt === undefined
            ? undefined
            : `The last heartbeat was ${ago(wait.heartbeatAt)}.`,
        ),
      };
    case 'queued':
    default:
      return tellQueued(wait, name);
  }
}

function retryConsequence(wait: WorkWait): string {
  if (wait.maxAttempts === undefined) return 'It is retried until it succeeds or is canceled.';
  const left = wait.maxAttempts - wait.attempt;
  if (left <= 0) return 'This is the last attempt: if it fails, the call fails.';
  return `${plural(left, 'more attempt')} may follow. If all fail, the call fails.`;
}

function tellQueued(wait: WorkWait, name: JSX.Element): Told {
  switch (wait.unclaimed) {
    case 'noWorker':
      return {
        sentence: <>No live worker can run {name}.</>,
        consequence: 'Start a worker that registers it. Nothing is lost while it waits.',
      };
    case 'busy':
      return {
        sentence: <>{name} is queued: all workers that can run it are busy.</>,
        consequence: 'The next free slot runs it. Add workers or raise their concurrency.',
      };
    case 'limited':
      return tellLimited(wait, name);
    case 'paused':
      return {
        sentence: <>{name} is queued and paused.</>,
        consequence: 'It starts when the definition or the instance is resumed.',
      };
    case 'queued':
    case undefined:
    default:
      return {
        sentence: <>{name} is queued and waits for a worker.</>,
        consequence: 'The next free worker claims it.',
      };
  }
}

/** Work that waits for a place or for its rate. */
function tellLimited({ limit, key }: WorkWait, name: JSX.Element): Told {
  const ofKey =
    key === undefined ? null : (
      <>
        {' '}
        for the key <Strong>{key}</Strong>
      </>
    );
  if (limit?.by === 'rate') {
    return {
      sentence: (
        <>
          {name} waits for its rate of <b>{limit.max}</b>
          {limit.perMs !== undefined && <> per {periodText(limit.perMs)}</>}
          {limit.perKey === true && ofKey}
          {limit.nextAt !== undefined && (
            <>
              : the next one starts <b>{until(limit.nextAt)}</b>
            </>
          )}
          .
        </>
      ),
      consequence: joined(aheadOf(limit.ahead), 'Raise the rate on the Queues page.'),
    };
  }
  return {
    sentence: (
      <>
        {name} waits for a place{limit?.by === 'perKey' && ofKey}: <b>{limit?.running ?? 0}</b> of{' '}
        <b>{limit?.max ?? 0}</b> are in use.
      </>
    ),
    consequence: joined(
      aheadOf(limit?.ahead ?? 0),
      'It starts when a run ends. Raise the limit on the Queues page.',
    ),
  };
}

function aheadOf(ahead: number): string | undefined {
  if (ahead === 0) return undefined;
  return `${ahead >= 1_000 ? '1,000 or more' : ahead} of the same key start before it.`;
}

function tellEnd(wait: Extract<Wait, { kind: 'ended' }>): Told {
  const reason = wait.reason === undefined || wait.reason === '' ? undefined : wait.reason;
  const by = wait.actor === undefined ? undefined : <Strong>{wait.actor}</Strong>;
  const leaked =
    wait.leaked === undefined
      ? undefined
      : `${plural(wait.leaked, 'handler')} ignored the cancel and still ran after the grace.`;
  switch (wait.status) {
    case 'completed':
      return { sentence: <>Completed {ago(wait.at)}.</>, consequence: leaked };
    case 'failed':
      return {
        sentence: (
          <>
            Failed {ago(wait.at)}
            {wait.failure !== undefined && (
              <>
                {' '}
                with <Code>{wait.failure.code ?? wait.failure.name}</Code>:{' '}
                <bdi>{withoutStop(wait.failure.message)}</bdi>
              </>
            )}
            .
          </>
        ),
        consequence: joined('Retry it from the failure, or fork it into a new instance.', leaked),
      };
    case 'canceled':
    case 'terminated':
      return {
        sentence: (
          <>
            {wait.status === 'canceled' ? 'Canceled' : 'Terminated'} {ago(wait.at)}
            {by !== undefined && <> by {by}</>}
            {reason !== undefined && (
              <>
                : <bdi>{withoutStop(reason)}</bdi>
              </>
            )}
            .
          </>
        ),
        consequence: joined(
          wait.cleanupSkipped === true
            ? 'The clean-up reached its limit, so the rest of it did not run.'
            : wait.status === 'terminated'
              ? 'No clean-up code ran.'
              : undefined,
          leaked,
        ),
      };
    case 'expired':
      return {
        sentence: <>Expired {ago(wait.at)}: no worker claimed it in time.</>,
        consequence: 'Its handler never ran. Retry it to run it now.',
      };
    case 'skipped':
      return { sentence: <>Skipped {ago(wait.at)}.</>, consequence: reason };
    default:
      return { sentence: <>Ended {ago(wait.at)}.</> };
  }
}

function tellBlocked(wait: Extract<Wait, { kind: 'blocked' }>): Told {
  const { recorded, issued } = wait;
  const retry =
    wait.retryAt === undefined
      ? 'A worker with another build retries it immediately.'
      : `Build ${wait.buildId} retries it ${until(wait.retryAt)}; a worker with another build retries it immediately.`;
  const consequence = `${retry} Nothing is lost while it waits.`;
  if (recorded === undefined && issued === undefined) {
    return {
      sentence: (
        <>
          Blocked: build <Code>{wait.buildId}</Code> cannot run it. <bdi>{wait.reason}</bdi>
        </>
      ),
      consequence,
    };
  }
  return {
    sentence: (
      <>
        Blocked: build <Code>{wait.buildId}</Code> issued{' '}
        {issued === undefined ? 'no command' : <Strong>{issued.name ?? issued.text}</Strong>}, the
        history has{' '}
        {recorded === undefined ? 'no command' : <Strong>{recorded.name ?? recorded.text}</Strong>}
        {wait.eventId !== undefined && ` at event ${wait.eventId}`}.
      </>
    ),
    consequence,
  };
}

function tellPaused(wait: Extract<Wait, { kind: 'paused' }>): Told {
  return {
    sentence: (
      <>
        {wait.target === 'instance' ? (
          'Paused'
        ) : (
          <>
            The {wait.target} <Strong>{wait.name ?? ''}</Strong> is paused
          </>
        )}{' '}
        for <b>{since(wait.at)}</b>
        {wait.actor !== undefined && (
          <>
            {' '}
            by <Strong>{wait.actor}</Strong>
          </>
        )}
        {wait.reason !== undefined && wait.reason !== '' && (
          <>
            : <bdi>{withoutStop(wait.reason)}</bdi>
          </>
        )}
        .
      </>
    ),
    consequence:
      'No turn or attempt starts until it is resumed. Cancel, terminate and delete still work.',
  };
}

function tellCancel(wait: Extract<Wait, { kind: 'cancel' }>, why: Why): Told {
  const work = why.waits.filter((one): one is WorkWait => 'state' in one);
  const children = why.waits.filter((one) => one.kind === 'child');
  const parts = [
    ...work.slice(0, 3).map((one) => (
      <>
        {one.state === 'retrying' ? 'retries' : one.state === 'running' ? 'runs' : 'queues'}{' '}
        {nameOfWork(one)}
        {one.attempt > 1 && `, ${attemptsOf(one)}`}
      </>
    )),
    ...children.slice(0, 2).map((one) => (
      <>
        waits for child <InstanceLink id={one.id} name={one.name} />
      </>
    )),
  ];
  const isCleanup = wait.phase === 'cleanup';
  return {
    sentence: (
      <>
        {isCleanup ? 'Cleans up' : 'Stops its handlers'} for <b>{since(wait.requestedAt)}</b>
        {parts.length > 0 && ': '}
        {parts.map((part, index) => (
          <Fragment key={index}>
            {index > 0 && (index === parts.length - 1 ? ', and ' : ', ')}
            {part}
          </Fragment>
        ))}
        .
      </>
    ),
    consequence: isCleanup
      ? wait.cleanupUntil === undefined
        ? 'Nothing new starts outside the clean-up. It ends as canceled when the clean-up has ended.'
        : `Nothing new starts outside the clean-up. It ends as canceled when that has ended, or without its code at ${moment(wait.cleanupUntil)}.`
      : 'It ends as canceled when no worker holds a lease on its work.',
  };
}

function tellWorker(wait: Extract<Wait, { kind: 'worker' }>): Told {
  const name = (
    <>
      <Strong>{wait.name}</Strong>
      {wait.version !== undefined && wait.version !== 'flow-1' && (
        <>
          {' '}
          <b>{versionText(wait.version)}</b>
        </>
      )}
    </>
  );
  const crashed =
    wait.expired === undefined ? undefined : (
      <>
        The lease of{' '}
        {wait.expired.worker === undefined ? (
          'the last worker'
        ) : (
          <Strong>{wait.expired.worker}</Strong>
        )}{' '}
        expired {ago(wait.expired.at)}.
      </>
    );
  if (wait.reason === 'noWorker') {
    return {
      sentence: (
        <>
          No live worker has {name}: it has waited for <b>{since(wait.dueAt)}</b>.
        </>
      ),
      consequence: joined(
        wait.nearestVersion === undefined
          ? 'Start a worker that registers it. Nothing is lost while it waits.'
          : `Live workers have ${versionText(wait.nearestVersion)}. Start a worker that registers ${wait.version === undefined ? 'it' : versionText(wait.version)}. Nothing is lost while it waits.`,
        crashed,
      ),
    };
  }
  return {
    sentence: (
      <>
        Waits for a worker to run its next turn, for <b>{since(wait.dueAt)}</b>.
      </>
    ),
    consequence: joined('The next free worker claims it.', crashed),
  };
}

function tellChild(wait: Extract<Wait, { kind: 'child' }>): Told {
  return {
    sentence: (
      <>
        Waits for the child <InstanceLink id={wait.id} name={wait.name} />
        {wait.isStopping === true && ' to stop'}.
      </>
    ),
    consequence: wait.text === undefined ? undefined : <Sentence>{`Child: ${wait.text}`}</Sentence>,
  };
}

function tellEvent(wait: Extract<Wait, { kind: 'event' }>, why: Why): Told {
  const timer = why.waits.find((one) => one.kind === 'timer');
  const name = <Strong>{wait.signal ?? wait.name}</Strong>;
  return {
    sentence: (
      <>
        Waits for {wait.signal === undefined ? 'the event' : 'the signal'} {name}
        {timer?.kind === 'timer' && (
          <>
            , or until a timer fires <b>{until(timer.fireAt)}</b>
          </>
        )}
        .
      </>
    ),
    consequence: `It continues when the ${wait.signal === undefined ? 'event' : 'signal'} is sent, and uses no worker until then.`,
  };
}

/** The waits that the sentence does not name. */
function restOf(wait: Wait, why: Why): string | undefined {
  const isTimerNamed = wait.kind === 'event' && why.waits.some(({ kind }) => kind === 'timer');
  const others = why.waits.length + why.more - 1 - (isTimerNamed ? 1 : 0);
  if (others <= 0) return undefined;
  return `It also waits for ${plural(others, 'other operation')}.`;
}

function onWorker(worker: string | undefined): JSX.Element | false {
  return (
    worker !== undefined && (
      <>
        {' '}
        on <bdi>{worker}</bdi>
      </>
    )
  );
}

function Strong({ children }: { readonly children: string }): JSX.Element {
  return (
    <b>
      <bdi>{children}</bdi>
    </b>
  );
}

function Code({ children }: { readonly children: string }): JSX.Element {
  return (
    <code>
      <bdi>{children}</bdi>
    </code>
  );
}

function InstanceLink({
  id,
  name,
}: {
  readonly id: string;
  readonly name: string | undefined;
}): JSX.Element {
  return (
    <a class="link strong" href={instanceHref(id)} title={id}>
      <bdi>{name ?? id}</bdi>
    </a>
  );
}

/** A message inside a sentence, which ends with a full stop of its own. */
function withoutStop(text: string): string {
  return text.replace(/\.$/, '');
}

function joined(first: ComponentChildren, second: ComponentChildren): ComponentChildren {
  if (first === undefined || first === null || first === '') return second;
  return second === undefined || second === null || second === '' ? (
    first
  ) : (
    <>
      {first} {second}
    </>
  );
}
