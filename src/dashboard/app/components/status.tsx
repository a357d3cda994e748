import type { JSX } from 'preact';
import { statusWords, type Tone } from '../words/status.ts';
import { Icon } from './icon.tsx';

interface StatusProps {
  readonly tone: Tone;
  /** Replaces the word of the tone. */
  readonly text?: string;
}

/** A status in a table: the icon in its colour, the word in grey. A problem has its word in the colour too. */
export function Status({
  tone,
  text,
  isProblem = false,
}: StatusProps & { readonly isProblem?: boolean }): JSX.Element {
  const { word, icon } = statusWords[tone];
  return (
    <span class={`st ${isProblem ? 'strong' : ''}`} data-st={tone}>
      <Icon name={isProblem ? 'warning' : icon} />
      <span class="cut">{text ?? word}</span>
    </span>
  );
}

/** A tinted status, once per header. */
export function StatusChip({ tone, text }: StatusProps): JSX.Element {
  const { word, icon } = statusWords[tone];
  return (
    <span class="chip" data-st={tone}>
      <Icon name={icon} />
      {text ?? word}
    </span>
  );
}

/** The icon of a status alone. Its meaning must be in text nearby, or in `label`. */
export function StatusIcon({
  tone,
  label,
}: {
  readonly tone: Tone;
  readonly label?: string;
}): JSX.Element {
  return (
    <span class="ic-box" data-st={tone}>
      <Icon name={statusWords[tone].icon} class="ic" {...(label !== undefined && { label })} />
    </span>
  );
}
