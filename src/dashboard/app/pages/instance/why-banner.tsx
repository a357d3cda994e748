import type { ComponentChildren, JSX } from 'preact';
import { Icon } from '../../components/icon.tsx';
import { Meter } from '../../components/panel.tsx';
import { Sentence } from '../../components/text.tsx';
import { now } from '../../state/clock.ts';
import { instanceHref } from '../../state/router.ts';
import { formatDuration, plural } from '../../words/format.ts';
import { ago, moment, since, until } from '../../words/sentence.ts';
import { statusWords, type Tone } from '../../words/status.ts';
import type { InstanceState, Why } from './instance-data.ts';

type Wait = Why['waits'][number];

/** The answer to "why is it in this state", in one sentence with a line of consequence. */
export function WhyBanner({ data }: { readonly data: InstanceState }): JSX.Element {
  const { why } = data;
  const main = mostTelling(why.waits);
  const tone = main === undefined ? 'neutral' : toneOfWait(main);
  const { sentence, consequence } = tell(main, why);
  return (
    <>
      <div class="why" data-st={tone} role="status">
        <Icon name={statusWords[tone].icon} />
        <p>
          {sentence}
          {consequence !== undefined && <small>{consequence}</small>}
        </p>
      </div>
      <CleanupLimit data={data} />
    </>
  );
}

// What an operator can act on comes first.
const order: readonly Wait['kind'][] = [
  'ended',
  'blocked',
  'paused',
  'cancel',
  'worker',
  'activity',
  'task',
  'onFail',
  'turn',
  'delay',
  'child',
  'event',
  'job',
  'timer',
  'detached',
];

function mostTelling(waits: readonly Wait[]): Wait | undefined {
  return [...waits].sort((a, b) => rank(a) - rank(b))[0];
}

function rank(wait: Wait): number {
  const place = order.indexOf(wait.kind);
  // Work that is retried or that nobody can run tells more than work that runs.
  const isTrouble =
    ('state' in wait && wait.state === 'retrying') ||
    ('unclaimed' in wait && wait.unclaimed === 'noWorker');
  return isTrouble ? place - 0.5 : place;
}

export function toneOfWait(wait: Wait): Tone {
  switch (wait.kind) {
    case 'ended':
      return wait.status;
    case 'blocked':
      return 'blocked';
    case 'paused':
      return 'paused';
    case 'cancel':
      return 'canceling';
    case 'worker':
      return wait.reason === 'noWorker' ? 'failed' : 'pending';
    case 'activity':
    case 'task':
    case 'onFail':
      if (wait.unclaimed === 'noWorker') return 'failed';
      return wait.state === 'queued' ? 'queued' : wait.state;
    case 'turn':
      return 'running';
    case 'delay':
    case 'timer':
    case 'event':
    case 'child':
    case 'detached':
    case 'job':
      return 'pending';
    default:
      return 'neutral';
  }
}

interface Told {
  readonly sentence: ComponentChildren;
  readonly consequence?: ComponentChildren;
}

function tell(wait: Wait | undefined, why: Why): Told {
  const others = why.waits.length + why.more - 1;
  const rest = others > 0 ? `It also waits for ${plural(others, 'other thing')}.` : undefined;
  if (wait === undefined) return { sentence: <Sentence>{why.text}</Sentence> };
  switch (wait.kind) {
    case 'activity':
    case 'task':
    case 'onFail':
      return {
        ...tellWork(wait),
        ...(rest !== undefined && { consequence: joined(tellWork(wait).consequence, rest) }),
      };
    case 'timer':
      return {
        sentence: (
          <>
            Sleeps until <b>{moment(wait.fireAt)}</b>, {until(wait.fireAt)}.
          </>
        ),
        consequence: rest,
      };
    case 'event':
      return {
        sentence: (
          <>
            Waits for the event{' '}
            <b>
              <bdi>{wait.name}</bdi>
            </b>
            .
          </>
        ),
        consequence: joined('It continues when the event is sent.', rest),
      };
    case 'child':
      return {
        sentence: (
          <>
            Waits for the child{' '}
            <a class="link" href={instanceHref(wait.id)}>
              <bdi>{wait.name ?? wait.id}</bdi>
            </a>
            {wait.isStopping === true ? ' to stop.' : '.'}
          </>
        ),
        consequence: joined(
          wait.text === undefined ? undefined : <Sentence>{wait.text}</Sentence>,
          rest,
        ),
      };
    case 'ended':
    case 'blocked':
    case 'paused':
    case 'cancel':
    case 'worker':
    case 'turn':
    case 'delay':
    case 'job':
    case 'detached':
      return {
        sentence: <Sentence>{why.text}</Sentence>,
        consequence: consequenceOf(wait) ?? rest,
      };
    default:
      return { sentence: <Sentence>{why.short}</Sentence> };
  }
}

function tellWork(wait: Extract<Wait, { state: string }>): Told {
  const attempts =
    wait.maxAttempts === undefined
      ? `attempt ${wait.attempt}`
      : `attempt ${wait.attempt} of ${wait.maxAttempts}`;
  const name = (
    <b>
      <bdi>{('step' in wait ? wait.step : undefined) ?? wait.name}</bdi>
    </b>
  );
  const failed =
    wait.lastFailure === undefined ? undefined : (
      <>
        {' '}
        The last attempt failed with{' '}
        <code>
          <bdi>{wait.lastFailure.message}</bdi>
        </code>
        .
      </>
    );
  if (wait.state === 'retrying') {
    const next = wait.nextTryAt === undefined ? 'starts soon' : `starts ${until(wait.nextTryAt)}`;
    return {
      sentence: (
        <>
          Retrying {name}: <b>{attempts}</b> {next}.{failed}
        </>
      ),
    };
  }
  if (wait.state === 'running') {
    const heartbeat =
      wait.heartbeatAt === undefined ? '' : ` The last heartbeat was ${ago(wait.heartbeatAt)}.`;
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
          {wait.worker !== undefined && (
            <>
              {' '}
              on <bdi>{wait.worker}</bdi>
            </>
          )}
          {wait.attempt > 1 && `, ${attempts}`}.{failed}
        </>
      ),
      consequence: heartbeat === '' ? undefined : heartbeat.trim(),
    };
  }
  if (wait.unclaimed === 'noWorker') {
    return {
      sentence: <>No live worker can run {name}.</>,
      consequence: 'Start a worker that registers it. Nothing is lost while it waits.',
    };
  }
  const reasons = {
    busy: 'All workers that can run it are busy.',
    paused: 'Its definition is paused.',
    queued: 'The next free worker takes it.',
    noWorker: '',
  } as const;
  return {
    sentence: <>Waits for a worker to run {name}.</>,
    consequence: wait.unclaimed === undefined ? undefined : reasons[wait.unclaimed],
  };
}

function consequenceOf(wait: Wait): string | undefined {
  switch (wait.kind) {
    case 'blocked':
      return wait.retryAt === undefined
        ? 'A worker with other code tries it at once. Nothing is lost while it waits.'
        : `Next try ${until(wait.retryAt)}, or at once by a worker with other code. Nothing is lost while it waits.`;
    case 'paused':
      return 'No turn, activity or attempt starts until it is resumed. Cancel, terminate and delete still work.';
    case 'cancel':
      return wait.phase === 'cleanup'
        ? 'Nothing new starts. It ends as canceled when the clean-up is over.'
        : 'It ends as canceled when its handlers have stopped.';
    case 'worker':
      return wait.reason === 'noWorker'
        ? 'Start a worker that registers this code. Nothing is lost while it waits.'
        : 'The next free worker takes it.';
    case 'ended':
      if (wait.cleanupSkipped === true) return 'The clean-up reached its limit and was ended.';
      return wait.status === 'failed'
        ? 'Retry it from the failure, or fork it into a new instance.'
        : undefined;
    case 'activity':
    case 'task':
    case 'onFail':
    case 'turn':
    case 'delay':
    case 'timer':
    case 'event':
    case 'child':
    case 'detached':
    case 'job':
    default:
      return undefined;
  }
}

function joined(first: ComponentChildren, second: string | undefined): ComponentChildren {
  if (first === undefined || first === null) return second;
  return second === undefined ? (
    first
  ) : (
    <>
      {first} {second}
    </>
  );
}

/** How much of the time for the clean-up is used. */
function CleanupLimit({ data }: { readonly data: InstanceState }): JSX.Element | null {
  const cancel = data.why.waits.find((wait) => wait.kind === 'cancel');
  if (cancel?.kind !== 'cancel' || cancel.cleanupUntil === undefined) return null;
  const all = cancel.cleanupUntil - cancel.requestedAt;
  const used = now.value - cancel.requestedAt;
  return (
    <div class="limit">
      <span>Clean-up limit</span>
      <Meter value={(used / all) * 100} tone="canceling" />
      <span>
        <b>{formatDuration(Math.min(used, all))}</b> of {formatDuration(all)}, until{' '}
        {moment(cancel.cleanupUntil)}
      </span>
    </div>
  );
}
