import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';

/** Copies text. Also works on plain HTTP, where the browser offers no clipboard. */
export function CopyButton({
  text,
  label,
}: {
  readonly text: string | (() => string);
  readonly label: string;
}): JSX.Element {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    await copyText(typeof text === 'string' ? text : text());
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <>
      <Button
        small
        look="ghost"
        icon={done ? 'tick' : 'copy'}
        label={label}
        onClick={() => void copy()}
      />
      <span class="sr" role="status">
        {done ? 'Copied' : ''}
      </span>
    </>
  );
}

async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Not allowed here: use a selection.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr';
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
