import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatBytes, formatNumber } from '../words/format.ts';
import { jsonLines } from '../words/json-lines.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';

// A payload of 2 MiB has up to some 100,000 lines: show them in parts.
const linesAtOnce = 400;

/** A JSON text, indented and coloured. Long ones appear in parts; a copy always has all of it. */
export function JsonView({
  text,
  label,
}: {
  /** As stored: numbers keep all their digits. */
  readonly text: string;
  readonly label: string;
}): JSX.Element {
  const [shown, setShown] = useState(linesAtOnce);
  const { lines, isComplete } = useMemo(() => jsonLines(text, shown), [text, shown]);
  const size = useMemo(() => formatBytes(new Blob([text]).size), [text]);
  return (
    <div class="json">
      <div class="json-tools">
        <span class="dim">{size}</span>
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      <pre class="code" tabIndex={0} aria-label={label}>
        {lines.map(({ indent, parts }, index) => (
          <div
            key={index}
            class="json-line"
            style={{ paddingLeft: `${Math.min(indent, 40) * 14}px` }}
          >
            {parts.map(([kind, one], at) => (
              <bdi key={at} class={kind}>
                {one}
              </bdi>
            ))}
          </div>
        ))}
      </pre>
      {!isComplete && (
        <Button small onClick={() => setShown(shown * 4)}>
          {`Show more than ${formatNumber(shown)} lines`}
        </Button>
      )}
    </div>
  );
}
