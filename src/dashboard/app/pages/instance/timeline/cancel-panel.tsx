import type { JSX } from 'preact';
import { Icon } from '../../../components/icon.tsx';
import { Moment } from '../../../components/text.tsx';
import { instanceHref } from '../../../state/router.ts';
import { since } from '../../../words/sentence.ts';
import { statusWords } from '../../../words/status.ts';
import type { InstanceState, Why } from '../instance-data.ts';
import type { TimelineData } from './timeline-data.ts';
import { nameOf } from './timeline-row.ts';
import { toneOfWait } from '../why/waits.ts';

/** What a cancel still waits for, what has stopped, and the request. */
export function CancelPanel({
  data: { instance, why },
  timeline,
}: {
  readonly data: InstanceState;
  readonly timeline: TimelineData;
}): JSX.Element {
  const waits = why.waits.filter(({ kind }) => kind !== 'cancel');
  const requestedAt = instance.cancel?.requestedAt ?? 0;
  const stopped = timeline.items.filter(
    ({ endedAt, withdrawnAt }) => (endedAt ?? withdrawnAt ?? 0) >= requestedAt && requestedAt > 0,
  );
  return (
    <aside class="aside" aria-label="Cancel">
      <div class="ph">
        <h2>Cancel</h2>
      </div>
      <div class="sect">
        <h3>
          Still waits for <span class="right">{waits.length + why.more}</span>
        </h3>
        {waits.length === 0 && <p class="dim">Nothing: its last turn ends it.</p>}
        <ul class="waits">
          {waits.slice(0, 20).map((wait, index) => {
            const tone = toneOfWait(wait);
            return (
              <li key={index} data-st={tone}>
                <Icon name={statusWords[tone].icon} />
                <div>
                  <b>
                    <bdi>{titleOf(wait)}</bdi>
                  </b>
                  <p>
                    <WaitText wait={wait} />
                  </p>
                </div>
              </li>
            );
          })}
        </ul>
      </div>
      {stopped.length > 0 && (
        <div class="sect">
          <h3>
            Already stopped <span class="right">{stopped.length}</span>
          </h3>
          <ul class="waits">
            {stopped.slice(-20).map((item) => {
              const tone = item.outcome ?? 'canceled';
              return (
                <li key={item.operation} data-st={tone}>
                  <Icon name={statusWords[tone].icon} />
                  <div>
                    <b>
                      <bdi>{nameOf(item)}</bdi>
                    </b>
                    <p>
                      <bdi>{item.reason ?? statusWords[tone].word}</bdi>
                    </p>
                  </div>
                </li>
              );
            })}
          </ul>
        </div>
      )}
      {instance.cancel !== undefined && (
        <div class="sect">
          <h3>Request</h3>
          <dl class="kv">
            <dt>Reason</dt>
            <dd>
              <bdi>{instance.cancel.reason}</bdi>
            </dd>
            {instance.cancel.actor !== null && (
              <>
                <dt>Actor</dt>
                <dd>
                  <bdi>{instance.cancel.actor}</bdi>
                </dd>
              </>
            )}
            <dt>Requested</dt>
            <dd>
              <Moment at={instance.cancel.requestedAt} />, {since(instance.cancel.requestedAt)} ago
            </dd>
          </dl>
        </div>
      )}
    </aside>
  );
}

function titleOf(wait: Why['waits'][number]): string {
  if ('name' in wait && wait.name !== undefined) return wait.name;
  return wait.kind === 'timer' ? 'timer' : wait.kind;
}

function WaitText({ wait }: { readonly wait: Why['waits'][number] }): JSX.Element {
  switch (wait.kind) {
    case 'activity':
    case 'task':
    case 'onFail':
      return (
        <>
          {wait.state === 'running'
            ? 'Runs'
            : wait.state === 'retrying'
              ? 'Waits for its next attempt'
              : 'Queued'}
          {wait.worker !== undefined && (
            <>
              {' '}
              on <bdi>{wait.worker}</bdi>
            </>
          )}
          {wait.claimedAt !== undefined && ` for ${since(wait.claimedAt)}`}
          {wait.attempt > 1 && `, attempt ${wait.attempt}`}
          {wait.cancel !== undefined && ', asked to stop'}
          {wait.lastFailure !== undefined && (
            <>
              . The last attempt failed:{' '}
              <code>
                <bdi>{wait.lastFailure.message}</bdi>
              </code>
            </>
          )}
        </>
      );
    case 'child':
      return (
        <>
          Child{' '}
          <a class="link" href={instanceHref(wait.id)}>
            <bdi>{wait.id}</bdi>
          </a>
          {wait.isStopping === true && ', asked to stop'}
        </>
      );
    case 'timer':
      return <>Due at {<Moment at={wait.fireAt} />}</>;
    case 'event':
      return <>Waits for this event</>;
    case 'worker':
      return (
        <>
          {wait.reason === 'noWorker' ? 'No live worker has this code' : 'Waits for a free worker'}
        </>
      );
    case 'blocked':
      return (
        <>
          Blocked: <bdi>{wait.reason}</bdi>
        </>
      );
    case 'paused':
    case 'turn':
    case 'delay':
    case 'start':
    case 'debounced':
    case 'place':
    case 'detached':
    case 'awakeable':
    case 'update':
    case 'job':
    case 'cancel':
    case 'ended':
    default:
      return <>{wait.kind}</>;
  }
}
