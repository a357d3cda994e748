import { Sentence } from '../../../components/text.tsx';
import { plural } from '../../../words/format.ts';
import { ago, moment, since, until } from '../../../words/sentence.ts';
import { versionText } from '../../../words/version.ts';
import type { Why } from '../instance-data.ts';
import { ClaimedBy, InstanceLink, joined, Strong, type Told } from './sentence-parts.tsx';
import { isState, tellState, type StateWait } from './state-sentence.tsx';
import type { Wait } from './waits.ts';
import { tellWork } from './work-sentence.tsx';

/** Says why an instance is in its state. Times are relative to now and tick. */
export function tellWhy(wait: Wait | undefined, why: Why): Told {
  if (wait === undefined) return { sentence: <Sentence>{why.text}</Sentence> };
  if (isState(wait)) return tellState(wait, why);
  const { sentence, consequence } = tellWait(wait, why);
  return { sentence, consequence: joined(consequence, restOf(wait, why)) };
}

function tellWait(wait: Exclude<Wait, StateWait>, why: Why): Told {
  switch (wait.kind) {
    case 'activity':
    case 'task':
    case 'onFail':
      return tellWork(wait);
    case 'worker':
      return tellWorker(wait);
    case 'turn':
      return {
        sentence: (
          <>
            Runs a turn
            <ClaimedBy claim={wait} />.
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
            Waits to begin: <b>{wait.running}</b> {wait.running === 1 ? 'instance' : 'instances'} of{' '}
            <bdi>{wait.name}</bdi> {wait.running === 1 ? 'has' : 'have'} begun, and its limits allow
            no more
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
  // The only other wait of a debounced run is its own work, which the sentence names.
  if (wait.kind === 'debounced') return undefined;
  const isTimerNamed = wait.kind === 'event' && why.waits.some(({ kind }) => kind === 'timer');
  const others = why.waits.length + why.more - 1 - (isTimerNamed ? 1 : 0);
  if (others <= 0) return undefined;
  return `It also waits for ${plural(others, 'other operation')}.`;
}
