import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { emptyInput, payloadProblem, type ActionInput } from '../actions/action-input.ts';
import { actionButton, actionTitle, actionWords, whyUnchanged } from '../actions/action-words.ts';
import { bulkRun, BulkRun, countChosen, dryRun, isBulk } from '../actions/bulk-run.ts';
import { runOn } from '../actions/run-action.ts';
import { ApiError } from '../api/api-error.ts';
import { call } from '../api/call.ts';
import { Button } from '../components/button.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Icon } from '../components/icon.tsx';
import { Problem } from '../components/states.tsx';
import { filterFields } from '../pages/instances/filter.ts';
import { pendingAction, type ActionKind, type PendingAction } from '../state/actions.ts';
import { useResource } from '../state/resource.ts';
import { tell } from '../state/toasts.ts';
import { formatNumber } from '../words/format.ts';
import { statusWords, storedStatuses, type StoredStatus } from '../words/status.ts';

/** Above this number the operator types it. */
const typedAbove = 100;

/** Asks for the details of an action, shows what it covers, and runs it. */
export function ActionDialog(): JSX.Element | null {
  const pending = pendingAction.value;
  if (pending === undefined) return null;
  return <Asked key={JSON.stringify(pending)} pending={pending} />;
}

function Asked({ pending }: { readonly pending: PendingAction }): JSX.Element {
  const { action, target, onDone } = pending;
  const words = actionWords[action];
  const [input, setInput] = useState<ActionInput>(() => ({
    ...emptyInput,
    definition: target.kind === 'instance' ? target.name : '',
  }));
  const [typed, setTyped] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const change = (changes: Partial<ActionInput>): void =>
    setInput((before) => ({ ...before, ...changes }));
  const close = (): void => {
    pendingAction.value = undefined;
  };
  useOriginalInput(action, target.kind === 'instance' ? target.id : '', change);
  const preview = useResource(
    `dry run ${JSON.stringify(target)} ${action} ${input.from}`,
    async (signal) =>
      target.kind === 'filter' && isBulk(action)
        ? dryRun(action, target.conditions, input, signal)
        : undefined,
  );
  const chosen = useResource(`chosen ${JSON.stringify(target)}`, async (signal) =>
    target.kind === 'ids' ? { counts: await countChosen(target.ids, signal) } : undefined,
  ).data.value?.counts;
  const count =
    target.kind === 'instance'
      ? undefined
      : target.kind === 'ids'
        ? target.ids.length
        : preview.data.value?.matched;
  const isCapped = preview.data.value?.preview?.capped === true;
  const isCounting = target.kind === 'filter' && preview.data.value === undefined;
  const mustType = (count ?? 0) > typedAbove && (words.isDangerous || target.kind === 'filter');
  const hasPayload = ['raiseEvent', 'retry', 'fork', 'runAgain'].includes(action);
  const problem = hasPayload ? payloadProblem(input.payload) : undefined;
  const isReady =
    !isBusy &&
    !isCounting &&
    problem === undefined &&
    (action !== 'raiseEvent' || input.eventName.trim() !== '') &&
    (action !== 'runAgain' || input.definition.trim() !== '') &&
    (!mustType || typed.replaceAll(/[,.\s]/g, '') === String(count));
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!isReady) return;
    if (target.kind !== 'instance') {
      const run = new BulkRun(
        action,
        actionTitle(action, isCapped ? undefined : count),
        input,
        isCapped ? undefined : count,
      );
      bulkRun.value = run;
      close();
      await run.run(target);
      onDone?.();
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      const { changed, text } = await runOn(action, target.id, input);
      tell(changed ? `${words.done}. ${text ?? ''}`.trim() : (text ?? 'Nothing changed.'));
      close();
      onDone?.();
    } catch (problem_) {
      setError(
        problem_ instanceof ApiError ? problem_ : new ApiError(-1, 'UNEXPECTED', String(problem_)),
      );
      setBusy(false);
    }
  };
  const id = target.kind === 'instance' && action !== 'runAgain' ? target.id : undefined;
  const title = action === 'runAgain' ? 'Start an instance' : actionTitle(action, count, id);
  return (
    <Dialog title={<bdi>{title}</bdi>} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="dlg-b">
          <p class="sub">
            {target.kind === 'filter'
              ? 'All instances that match now. Those that start later are not affected.'
              : words.effect}
          </p>
          {target.kind === 'filter' && <Tokens search={target.query} />}
          {target.kind === 'filter' && (
            <DryRun
              action={action}
              counts={preview.data.value?.preview?.byStatus}
              isCapped={isCapped}
            />
          )}
          {target.kind === 'ids' && chosen !== undefined && (
            <DryRun action={action} counts={chosen} isCapped={false} />
          )}
          {preview.error.value !== undefined && (
            <Problem error={preview.error.value} retry={() => preview.reload()} />
          )}
          <div class="form">
            <Fields
              action={action}
              input={input}
              change={change}
              problem={problem}
              isBulk={target.kind !== 'instance'}
            />
            {mustType && (
              <label class="field full">
                <span class="type">
                  Type <b>{count}</b> to confirm
                </span>
                <input
                  class="input"
                  inputMode="numeric"
                  autocomplete="off"
                  value={typed}
                  onInput={(event) => setTyped(event.currentTarget.value)}
                />
              </label>
            )}
          </div>
          {error !== undefined && <Problem error={error} />}
        </div>
        <div class="dlg-f">
          {target.kind !== 'instance' && <span class="dim">Keep this tab open until it ends</span>}
          <div class="right">
            <Button onClick={close}>{target.kind === 'instance' ? words.keep : 'Keep them'}</Button>
            <Button
              type="submit"
              look={words.isDangerous ? 'dangerFill' : 'primary'}
              disabled={!isReady}
            >
              {isCounting ? 'Counting…' : actionButton(action, isCapped ? undefined : count)}
            </Button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}

/** Offers the input of the instance when it is started again. */
function useOriginalInput(
  action: ActionKind,
  id: string,
  change: (changes: Partial<ActionInput>) => void,
): void {
  useEffect(() => {
    if (action !== 'runAgain' || id === '') return undefined;
    const abort = new AbortController();
    const read = async (): Promise<void> => {
      try {
        const { input } = await call('getInstance', { params: { id } }, abort.signal);
        if (input !== undefined) change({ payload: JSON.stringify(input, null, 2) });
      } catch {
        // The field stays empty.
      }
    };
    void read();
    return () => abort.abort();
  }, []);
}

function Tokens({ search }: { readonly search: string }): JSX.Element {
  const params = new URLSearchParams(search);
  const tokens = [
    ...params.getAll('status').map((value) => ['status is', value] as const),
    ...filterFields.flatMap(({ key, words }) =>
      params.getAll(key).map((value) => [words, value] as const),
    ),
  ];
  return (
    <div class="toks">
      {tokens.length === 0 && (
        <span class="tok">
          <b class="tok-only">Every instance of the store</b>
        </span>
      )}
      {tokens.map(([words, value]) => (
        <span key={`${words} ${value}`} class="tok">
          <i>{words}</i>
          <b class="cut tok-last">
            <bdi>{value}</bdi>
          </b>
        </span>
      ))}
    </div>
  );
}

function DryRun({
  action,
  counts,
  isCapped,
}: {
  readonly action: ActionKind;
  readonly counts: Partial<Record<StoredStatus, number>> | undefined;
  readonly isCapped: boolean;
}): JSX.Element | null {
  if (counts === undefined) return <p class="dim dry-wait">Counting…</p>;
  const rows = storedStatuses.flatMap((status) => {
    const count = counts[status];
    return count === undefined || count === 0 ? [] : [[status, count] as const];
  });
  if (rows.length === 0) return <p class="dry-wait">Nothing matches now.</p>;
  return (
    <ul class="dry" aria-label="Dry run">
      {rows.map(([status, count]) => {
        const effect = actionWords[action].byStatus[status];
        return (
          <li key={status} data-st={status}>
            <b>{isCapped ? `${formatNumber(count)}+` : formatNumber(count)}</b>
            <Icon name={statusWords[status].icon} />
            <span>{effect ?? whyUnchanged(action, status)}</span>
          </li>
        );
      })}
    </ul>
  );
}

interface FieldProps {
  readonly action: ActionKind;
  readonly input: ActionInput;
  readonly change: (changes: Partial<ActionInput>) => void;
  readonly problem: string | undefined;
  readonly isBulk: boolean;
}

function Fields({ action, input, change, problem, isBulk: isMany }: FieldProps): JSX.Element {
  const needsReason =
    !['raiseEvent', 'runAgain', 'delete', 'prune'].includes(action) ||
    (isMany && action === 'delete');
  return (
    <>
      {action === 'runAgain' && (
        <label class="field full">
          <span>Orchestration</span>
          <input
            class="input"
            required
            value={input.definition}
            onInput={(event) => change({ definition: event.currentTarget.value })}
          />
        </label>
      )}
      {action === 'raiseEvent' && (
        <label class="field full">
          <span>Event</span>
          <input
            class="input"
            required
            autofocus
            value={input.eventName}
            onInput={(event) => change({ eventName: event.currentTarget.value })}
          />
        </label>
      )}
      {(action === 'retry' || action === 'fork') && (
        <label class="field full">
          <span>From</span>
          <select
            class="input"
            value={input.from}
            onChange={(event) => change({ from: event.currentTarget.value as 'failure' | 'start' })}
          >
            <option value="failure">The failure: keeps results recorded before it</option>
            <option value="start">The start: everything runs again</option>
          </select>
        </label>
      )}
      {action === 'fork' && (
        <label class="field full">
          <span>
            After event <i class="hint">a sequence number of the history; replaces “From”</i>
          </span>
          <input
            class="input"
            inputMode="numeric"
            pattern="\d*"
            value={input.fromEvent}
            onInput={(event) => change({ fromEvent: event.currentTarget.value })}
          />
        </label>
      )}
      {(action === 'fork' || action === 'runAgain') && (
        <label class="field full">
          <span>
            Id of the new instance <i class="hint">optional</i>
          </span>
          <input
            class="input"
            value={input.newId}
            onInput={(event) => change({ newId: event.currentTarget.value })}
          />
        </label>
      )}
      {['raiseEvent', 'runAgain', 'retry', 'fork'].includes(action) &&
        !(isMany && action === 'retry') && (
          <label class="field full">
            <span>
              {action === 'raiseEvent' ? 'Payload' : 'Input'}{' '}
              <i class="hint">
                {action === 'retry' || action === 'fork'
                  ? 'JSON, optional; only from the start'
                  : 'JSON, optional'}
              </i>
            </span>
            <textarea
              class="input"
              rows={4}
              spellcheck={false}
              aria-invalid={problem !== undefined}
              value={input.payload}
              onInput={(event) => change({ payload: event.currentTarget.value })}
            />
            {problem !== undefined && <span class="bad field-problem">{problem}</span>}
          </label>
        )}
      {needsReason && (
        <label class={`field ${action === 'cancel' ? '' : 'full'}`}>
          <span>
            Reason{' '}
            <i class="hint">
              {action === 'cancel' ? 'seen by handlers and in the audit' : 'kept in the audit'}
            </i>
          </span>
          <input
            class="input"
            autofocus
            value={input.reason}
            onInput={(event) => change({ reason: event.currentTarget.value })}
          />
        </label>
      )}
      {action === 'cancel' && (
        <label class="field">
          <span>Clean-up limit</span>
          <input
            class="input"
            placeholder="5m"
            value={input.cleanupTimeout}
            onInput={(event) => change({ cleanupTimeout: event.currentTarget.value })}
          />
        </label>
      )}
      {action === 'prune' && (
        <label class="field full">
          <span>
            Executions to keep <i class="hint">the latest, including the current one</i>
          </span>
          <input
            class="input"
            inputMode="numeric"
            pattern="\d*"
            value={input.keepLast}
            onInput={(event) => change({ keepLast: event.currentTarget.value })}
          />
        </label>
      )}
      {['terminate', 'pause', 'resume'].includes(action) && (
        <label class="check-field full">
          <input
            type="checkbox"
            checked={input.tree}
            onChange={(event) => change({ tree: event.currentTarget.checked })}
          />
          {action === 'terminate'
            ? 'Also terminate descendants; otherwise they are canceled'
            : 'Also its descendants'}
        </label>
      )}
    </>
  );
}
