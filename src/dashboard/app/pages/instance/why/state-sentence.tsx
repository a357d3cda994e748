import { Fragment } from 'preact';
import { plural } from '../../../words/format.ts';
import { ago, moment, since, until } from '../../../words/sentence.ts';
import type { Why } from '../instance-data.ts';
import { Code, InstanceLink, joined, Strong, withoutStop, type Told } from './sentence-parts.tsx';
import type { Wait, WorkWait } from './waits.ts';
import { attemptsOf, nameOfWork } from './work-sentence.tsx';

/** The state of an instance that has ended or does not continue by itself. It tells more than its waits. */
export type StateWait = Extract<Wait, { kind: 'ended' | 'blocked' | 'paused' | 'cancel' }>;

export function isState(wait: Wait): wait is StateWait {
  return ['ended', 'blocked', 'paused', 'cancel'].includes(wait.kind);
}

/** Says that an instance has ended, is blocked, is paused or is being canceled. */
export function tellState(wait: StateWait, why: Why): Told {
  switch (wait.kind) {
    case 'ended':
      return tellEnd(wait);
    case 'blocked':
      return tellBlocked(wait);
    case 'paused':
      return tellPaused(wait);
    case 'cancel':
      return tellCancel(wait, why);
  }
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
