import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import type { Request } from '../../api/operations.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { tell, tellError } from '../../state/toasts.ts';
import { limitsText, periodValue, type Limits } from '../../words/limits.ts';

type Change = Request<'setLimits'>['body'];

/** The fields of the form, as text. Empty: no limit. */
interface Fields {
  readonly global: string;
  readonly perKey: string;
  readonly rate: string;
  readonly rateIsPerKey: boolean;
}

/** Asks for new limits of a definition, or whether to return to those of the code, and for a reason. */
export function LimitsDialog({
  limits,
  action,
  onClose,
  onDone,
}: {
  readonly limits: Limits;
  readonly action: 'set' | 'reset';
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const { kind, name } = limits;
  const before = toFields(limits);
  const [fields, setFields] = useState(before);
  const [reason, setReason] = useState('');
  const change = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const wanted = toChange(before, fields);
  const problem = typeof wanted === 'string' ? wanted : undefined;
  const isUnchanged = action === 'set' && wanted === undefined;
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const why = reason.trim() === '' ? {} : { reason: reason.trim() };
    try {
      if (action === 'reset') {
        await call('resetLimits', { params: { name }, body: { kind, ...why } });
        tell(`${name} has the limits of its code again.`);
      } else if (typeof wanted === 'object') {
        await call('setLimits', { params: { name }, body: { kind, ...wanted, ...why } });
        tell(`The limits of ${name} are changed for all workers.`);
      }
      onClose();
      onDone();
    } catch (error) {
      tellError('The limits were not changed', error);
    }
  };
  const title = action === 'set' ? `Change the limits of ${name}` : `Reset the limits of ${name}`;
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="dlg-b">
          <p class="sub">
            {action === 'set'
              ? 'The change holds for all workers until it is reset. A lower limit stops nothing that runs.'
              : `The limits of the code hold again: ${limitsText(limits.declared)}.`}
          </p>
          <div class="form">
            {action === 'set' && (
              <>
                <TextField
                  label="At a time"
                  hint="over all workers; empty: no limit"
                  value={fields.global}
                  onInput={(global) => change({ global })}
                  focus
                />
                <TextField
                  label="Per key"
                  hint="at a time; empty: no limit"
                  value={fields.perKey}
                  onInput={(perKey) => change({ perKey })}
                />
                {kind !== 'orchestration' && (
                  <>
                    <TextField
                      label="Rate"
                      hint="such as 100/1m; empty: no rate"
                      value={fields.rate}
                      onInput={(rate) => change({ rate })}
                    />
                    <label class="check-field">
                      <input
                        type="checkbox"
                        checked={fields.rateIsPerKey}
                        onChange={(event) => change({ rateIsPerKey: event.currentTarget.checked })}
                      />
                      Each key has the rate
                    </label>
                  </>
                )}
                {problem !== undefined && <span class="bad field-problem full">{problem}</span>}
              </>
            )}
            <TextField
              label="Reason"
              hint="kept in the audit"
              value={reason}
              onInput={setReason}
              full
              focus={action === 'reset'}
            />
          </div>
        </div>
        <div class="dlg-f">
          <div class="right">
            <Button onClick={onClose}>Keep them</Button>
            <Button type="submit" look="primary" disabled={problem !== undefined || isUnchanged}>
              {action === 'set' ? 'Change limits' : 'Reset limits'}
            </Button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}

function TextField({
  label,
  hint,
  value,
  onInput,
  full = false,
  focus = false,
}: {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly full?: boolean;
  readonly focus?: boolean;
}): JSX.Element {
  return (
    <label class={`field ${full ? 'full' : ''}`}>
      <span>
        {label} <i class="hint">{hint}</i>
      </span>
      <input
        class="input"
        autofocus={focus}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

function toFields({ effective: { global, perKey, rate } }: Limits): Fields {
  return {
    global: global === undefined ? '' : String(global),
    perKey: perKey === undefined ? '' : String(perKey),
    rate: rate === undefined ? '' : `${rate.limit}/${periodValue(rate.perMs)}`,
    rateIsPerKey: rate?.perKey === true,
  };
}

/** The figures that differ from before; `undefined` if none does, and a sentence if one is invalid. */
function toChange(before: Fields, fields: Fields): Change | string | undefined {
  const concurrency: { global?: number | null; perKey?: number | null } = {};
  for (const [name, label] of [
    ['global', 'At a time'],
    ['perKey', 'Per key'],
  ] as const) {
    const text = fields[name].trim();
    if (text === before[name]) continue;
    if (!/^\d*$/.test(text)) return `${label} must be a number.`;
    concurrency[name] = text === '' ? null : Number(text);
  }
  const rate = toRate(before, fields);
  if (typeof rate === 'string') return rate;
  if (Object.keys(concurrency).length === 0 && rate === undefined) return undefined;
  return { concurrency, ...(rate !== undefined && { rate: rate.rate }) };
}

function toRate(
  before: Fields,
  { rate, rateIsPerKey }: Fields,
): { readonly rate: Change['rate'] } | string | undefined {
  const text = rate.trim();
  const isSame = text === before.rate && rateIsPerKey === before.rateIsPerKey;
  if (isSame || (text === '' && before.rate === '')) return undefined;
  if (text === '') return { rate: null };
  const [, limit, per] = /^(\d+)\s*\/\s*(\S.*)$/.exec(text) ?? [];
  if (limit === undefined || per === undefined) return 'Rate must be a count and a period: 100/1m.';
  return { rate: { limit: Number(limit), per, perKey: rateIsPerKey } };
}
