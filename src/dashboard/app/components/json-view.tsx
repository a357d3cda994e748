import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatBytes } from '../words/format.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';

// A payload of 2 MiB has up to some 100,000 lines: show them in parts.
const linesAtOnce = 2_000;

interface Line {
  readonly indent: number;
  readonly parts: readonly (readonly [kind: 'k' | 's' | 'n' | 'p' | 'b', text: string])[];
}

/** A JSON value, indented and coloured. Long values appear in parts; a copy always has all of it. */
export function JsonView({
  value,
  label,
}: {
  readonly value: unknown;
  readonly label: string;
}): JSX.Element {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? 'undefined', [value]);
  const lines = useMemo(() => toLines(value), [value]);
  const [shown, setShown] = useState(linesAtOnce);
  return (
    <div class="json">
      <div class="json-tools">
        <span class="dim">{formatBytes(new Blob([text]).size)}</span>
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      <pre class="code" tabIndex={0} aria-label={label}>
        {lines.slice(0, shown).map(({ indent, parts }, index) => (
          <div key={index} class="json-line" style={{ paddingLeft: `${indent * 14}px` }}>
            {parts.map(([kind, one], at) => (
              <bdi key={at} class={kind}>
                {one}
              </bdi>
            ))}
          </div>
        ))}
      </pre>
      {lines.length > shown && (
        <Button small onClick={() => setShown(shown + linesAtOnce * 4)}>
          {`Show more of ${lines.length.toLocaleString('en-US')} lines`}
        </Button>
      )}
    </div>
  );
}

/** Divides a value into lines, iteratively: payloads may be nested deeply. */
function toLines(root: unknown): readonly Line[] {
  type Part = Line['parts'][number];
  const lines: Line[] = [];
  type Task =
    | { value: unknown; indent: number; lead: Part[]; tail: string }
    | { close: string; indent: number; tail: string };
  const tasks: Task[] = [{ value: root, indent: 0, lead: [], tail: '' }];
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    if ('close' in task) {
      lines.push({ indent: task.indent, parts: [['p', task.close + task.tail]] });
      continue;
    }
    const { value, indent, lead, tail } = task;
    if (typeof value !== 'object' || value === null) {
      const kind = typeof value === 'string' ? 's' : typeof value === 'number' ? 'n' : 'b';
      lines.push({
        indent,
        parts: [...lead, [kind, JSON.stringify(value) ?? 'undefined'], ['p', tail]],
      });
      continue;
    }
    const isArray = Array.isArray(value);
    const entries: readonly (readonly [string | undefined, unknown])[] = isArray
      ? (value as readonly unknown[]).map((one) => [undefined, one] as const)
      : Object.entries(value);
    const [open, close] = isArray ? ['[', ']'] : ['{', '}'];
    if (entries.length === 0) {
      lines.push({ indent, parts: [...lead, ['p', `${open}${close}${tail}`]] });
      continue;
    }
    lines.push({ indent, parts: [...lead, ['p', open]] });
    tasks.push({ close, indent, tail });
    for (let index = entries.length - 1; index >= 0; index -= 1) {
      const entry = entries[index];
      if (entry === undefined) continue;
      const [key, inner] = entry;
      tasks.push({
        value: inner,
        indent: indent + 1,
        lead:
          key === undefined
            ? []
            : [
                ['k', JSON.stringify(key)],
                ['p', ': '],
              ],
        tail: index < entries.length - 1 ? ',' : '',
      });
    }
  }
  return lines;
}
