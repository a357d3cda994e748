import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { Button } from '../../components/button.tsx';
import { JsonView } from '../../components/json-view.tsx';
import { Loading, Problem } from '../../components/states.tsx';
import { useResource } from '../../state/resource.ts';
import { describeEvent } from '../../words/event-text.ts';
import { formatDateTime } from '../../words/format.ts';

/** One event with its whole payload. */
export function EventPanel({
  id,
  executionId,
  eventId,
  onClose,
}: {
  readonly id: string;
  readonly executionId: number;
  readonly eventId: number;
  readonly onClose: () => void;
}): JSX.Element {
  const page = useResource(`event ${id} ${executionId} ${eventId}`, (signal) =>
    call(
      'getHistory',
      { params: { id }, query: { executionId, after: eventId - 1, limit: 1, payloads: 'full' } },
      signal,
    ),
  );
  const event = page.data.value?.items[0]?.event;
  return (
    <aside class="aside" aria-label={`Event ${eventId}`}>
      <div class="ph">
        <span class="dim">{eventId}</span>
        <h2>{event?.kind ?? 'Event'}</h2>
        <span class="grow" />
        <Button small look="ghost" icon="close" label="Close" onClick={onClose} />
      </div>
      {page.error.value !== undefined && (
        <Problem error={page.error.value} retry={() => page.reload()} />
      )}
      {event === undefined && page.error.value === undefined && <Loading rows={4} />}
      {event !== undefined && (
        <>
          <div class="sect">
            <dl class="kv">
              <dt>Recorded</dt>
              <dd>{formatDateTime(event.at)}</dd>
              <dt>About</dt>
              <dd>
                <bdi>{describeEvent(event)}</bdi>
              </dd>
            </dl>
          </div>
          {'payload' in event && typeof event.payload === 'string' && (
            <div class="sect">
              <h3>Payload</h3>
              <JsonView text={event.payload} label="payload" />
            </div>
          )}
          {'failure' in event && (
            <div class="sect">
              <h3>Failure</h3>
              <FailureView failure={event.failure} />
            </div>
          )}
          <div class="sect">
            <h3>Event</h3>
            <JsonView text={JSON.stringify(withoutPayload(event))} label="event" />
          </div>
        </>
      )}
    </aside>
  );
}

interface ShownFailure {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly details?: unknown;
  readonly cause?: ShownFailure;
}

/** A failure with its code, details, stack and causes. */
export function FailureView({ failure }: { readonly failure: ShownFailure }): JSX.Element {
  const causes: ShownFailure[] = [];
  for (let cause = failure.cause; cause !== undefined && causes.length < 10; cause = cause.cause)
    causes.push(cause);
  return (
    <div class="failure">
      <p>
        <code class="bad">
          <bdi>{failure.code ?? failure.name}</bdi>
        </code>{' '}
        <bdi>{failure.message}</bdi>
      </p>
      {causes.map((cause, index) => (
        <p key={index} class="dim">
          Caused by <code>{cause.name}</code> <bdi>{cause.message}</bdi>
        </p>
      ))}
      {failure.details !== undefined && (
        <JsonView text={JSON.stringify(failure.details)} label="details" />
      )}
      {failure.stack !== undefined && (
        <pre class="code" tabIndex={0} aria-label="stack">
          {failure.stack}
        </pre>
      )}
    </div>
  );
}

function withoutPayload(event: object): object {
  const { payload: _payload, failure: _failure, ...rest } = event as Record<string, unknown>;
  return rest;
}
