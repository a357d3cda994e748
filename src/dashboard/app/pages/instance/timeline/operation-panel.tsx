import type { JSX } from 'preact';
import { call } from '../../../api/call.ts';
import { Button } from '../../../components/button.tsx';
import { Icon } from '../../../components/icon.tsx';
import { JsonView } from '../../../components/json-view.tsx';
import { LoadState } from '../../../components/states.tsx';
import { StatusChip } from '../../../components/status.tsx';
import { instanceHref } from '../../../state/router.ts';
import { useResource } from '../../../state/resource.ts';
import { formatDuration, formatTime } from '../../../words/format.ts';
import { ago, since, until } from '../../../words/sentence.ts';
import { statusWords } from '../../../words/status.ts';
import { FailureView } from '../event-panel.tsx';
import { nameOf, toneOfRow, type TimelineRow } from './timeline-row.ts';

const kinds = {
  activity: 'Activity',
  step: 'Step',
  timer: 'Timer',
  event: 'External event',
  child: 'Child',
  detached: 'Detached instance',
  awakeable: 'Awakeable',
  status: 'Custom status',
  state: 'State',
} as const;

/** One operation: its times, attempts, input and output. */
export function OperationPanel({
  row,
  executionId,
  onClose,
}: {
  readonly row: TimelineRow;
  /** Absent: the current execution. */
  readonly executionId: number | undefined;
  readonly onClose: () => void;
}): JSX.Element {
  const { item, pending, instanceId } = row;
  const tone = toneOfRow(row);
  const page = useResource(
    `operation ${instanceId} ${executionId ?? ''} ${item.operation} ${tone}`,
    (signal) =>
      call(
        'getHistory',
        {
          params: { id: instanceId },
          query: {
            operation: item.operation,
            payloads: 'full',
            limit: 20,
            ...(executionId !== undefined && { executionId }),
          },
        },
        signal,
      ),
  );
  const events = page.data.value?.items.map(({ event }) => event) ?? [];
  const issued = events.find(
    ({ kind }) =>
      kind === 'activityScheduled' || kind === 'childScheduled' || kind === 'detachedStarted',
  );
  const answer = events.find(({ kind }) => kind.endsWith('Completed'));
  const failed = events.find((event) => 'failure' in event);
  const input = issued !== undefined && 'payload' in issued ? issued.payload : undefined;
  const output = answer !== undefined && 'payload' in answer ? answer.payload : undefined;
  return (
    <aside class="aside" aria-label={`Operation ${item.operation}`}>
      <div class="ph">
        <span class="dim">#{item.operation}</span>
        <h2 class="cut">
          <bdi>{nameOf(item)}</bdi>
        </h2>
        <StatusChip tone={tone} />
        <span class="grow" />
        <Button small look="ghost" icon="close" label="Close" onClick={onClose} />
      </div>
      <div class="sect">
        <dl class="kv">
          <dt>Kind</dt>
          <dd>
            {kinds[item.kind]}
            {issued !== undefined &&
              'cancellation' in issued &&
              issued.cancellation !== undefined && (
                <>
                  , cancellation <code>{issued.cancellation}</code>
                </>
              )}
            {issued !== undefined && 'shielded' in issued && issued.shielded && ', in a shield'}
          </dd>
          {item.childId !== undefined && (
            <>
              <dt>Instance</dt>
              <dd>
                <a class="link" href={instanceHref(item.childId)}>
                  <bdi>{item.childId}</bdi>
                </a>
              </dd>
            </>
          )}
          {item.startedAt !== undefined && (
            <>
              <dt>Scheduled</dt>
              <dd class="tnum">{formatTime(item.startedAt, { millis: true })}</dd>
            </>
          )}
          {item.fireAt !== undefined && (
            <>
              <dt>Due</dt>
              <dd class="tnum">{formatTime(item.fireAt)}</dd>
            </>
          )}
          {item.claimedAt !== undefined && item.startedAt !== undefined && (
            <>
              <dt>Waited</dt>
              <dd>{formatDuration(item.claimedAt - item.startedAt)} for a worker</dd>
            </>
          )}
          {item.endedAt !== undefined && (
            <>
              <dt>Ended</dt>
              <dd class="tnum">
                {formatTime(item.endedAt, { millis: true })}
                {item.startedAt !== undefined &&
                  `, after ${formatDuration(item.endedAt - (item.claimedAt ?? item.startedAt))}`}
              </dd>
            </>
          )}
          {(item.worker ?? pending?.worker) !== undefined && (
            <>
              <dt>Worker</dt>
              <dd>
                <bdi>{item.worker ?? pending?.worker}</bdi>
              </dd>
            </>
          )}
          {item.reason !== undefined && item.outcome !== 'failed' && (
            <>
              <dt>Reason</dt>
              <dd>
                <bdi>{item.reason}</bdi>
              </dd>
            </>
          )}
        </dl>
      </div>
      {pending !== undefined && <Attempts pending={pending} />}
      {failed !== undefined && 'failure' in failed && (
        <div class="sect">
          <h3>
            Failure
            {failed.failure.attempts !== undefined && (
              <span class="right">after {failed.failure.attempts} attempts</span>
            )}
          </h3>
          <FailureView failure={failed.failure} />
        </div>
      )}
      <LoadState of={page} rows={3} />
      {typeof input === 'string' && (
        <div class="sect">
          <h3>Input</h3>
          <JsonView text={input} label="input" />
        </div>
      )}
      {page.data.value !== undefined && (item.kind === 'activity' || item.kind === 'child') && (
        <div class="sect">
          <h3>Output</h3>
          {typeof output === 'string' ? (
            <JsonView text={output} label="output" />
          ) : (
            <p class="dim">{item.endedAt === undefined ? 'None yet' : 'None'}</p>
          )}
        </div>
      )}
    </aside>
  );
}

/** The attempt that runs or comes next, and the last one that failed. */
function Attempts({
  pending,
}: {
  readonly pending: NonNullable<TimelineRow['pending']>;
}): JSX.Element {
  const all = pending.maxAttempts === undefined ? '' : ` of ${pending.maxAttempts}`;
  const { state, attempt, lastFailure } = pending;
  return (
    <div class="sect">
      <h3>
        Attempts{' '}
        <span class="right">
          {attempt}
          {all}
        </span>
      </h3>
      <ol class="atts">
        <li data-st={state}>
          <Icon name={statusWords[state].icon} />
          <span class="a1">Attempt {attempt}</span>
          <span class="a2">
            {state === 'retrying' && pending.nextTryAt !== undefined && until(pending.nextTryAt)}
            {state === 'running' &&
              pending.claimedAt !== undefined &&
              `for ${since(pending.claimedAt)}`}
            {state === 'queued' && 'queued'}
          </span>
          {pending.heartbeatAt !== undefined && (
            <p class="err">Last heartbeat {ago(pending.heartbeatAt)}</p>
          )}
          {pending.cancel !== undefined && (
            <p class="err">
              Asked to stop: <bdi>{pending.cancel.reason}</bdi>
            </p>
          )}
        </li>
        {lastFailure !== undefined && (
          <li data-st="failed">
            <Icon name="failed" />
            <span class="a1">
              Attempt {state === 'retrying' || state === 'queued' ? attempt - 1 || 1 : attempt - 1}
            </span>
            <span class="a2">failed</span>
            <p class="err">
              <code>
                <bdi>{lastFailure.code ?? lastFailure.name}</bdi>
              </code>{' '}
              <bdi>{lastFailure.message}</bdi>
            </p>
          </li>
        )}
      </ol>
    </div>
  );
}
