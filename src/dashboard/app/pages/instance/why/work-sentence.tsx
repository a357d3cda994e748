import type { JSX } from 'preact';
import { now } from '../../../state/clock.ts';
import { plural } from '../../../words/format.ts';
import { periodText } from '../../../words/limits.ts';
import { ago, until } from '../../../words/sentence.ts';
import { ClaimedBy, Code, joined, Strong, type Told } from './sentence-parts.tsx';
import type { WorkWait } from './waits.ts';

/** The attempt and its limit: `attempt 4 of 8`. */
export function attemptsOf({ attempt, maxAttempts }: WorkWait): string {
  return maxAttempts === undefined ? `attempt ${attempt}` : `attempt ${attempt} of ${maxAttempts}`;
}

/** The name of the step, or of the activity or task. */
export function nameOfWork(wait: WorkWait): JSX.Element {
  const step = 'step' in wait ? wait.step : undefined;
  // The name of the activity that calls a task has a prefix.
  const name = wait.kind === 'activity' ? wait.name.replace(/^task:/, '') : wait.name;
  return <Strong>{step ?? name}</Strong>;
}

/** Says what an activity, a task or a failure handler waits for. */
export function tellWork(wait: WorkWait): Told {
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
            <ClaimedBy claim={wait} />
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
      if (wait.nextTryAt !== undefined && wait.nextTryAt > now.value) {
        return {
          sentence: (
            <>
              {name} starts <b>{until(wait.nextTryAt)}</b>.
            </>
          ),
          consequence: 'It uses no worker until then.',
        };
      }
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
        <b>{limit?.max ?? 0}</b> {limit?.max === 1 ? 'is' : 'are'} in use.
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
  if (ahead === 1) return '1 run of the same key starts before it.';
  return `${ahead >= 1_000 ? '1,000 or more' : ahead} runs of the same key start before it.`;
}
