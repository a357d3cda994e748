import type { JSX } from 'preact';
import { Icon } from './icon.tsx';

/** A check box of 14 px with a larger area to hit. */
export function Checkbox({
  checked,
  label,
  tabIndex = 0,
  onChange,
}: {
  readonly checked: boolean | 'mixed';
  readonly label: string;
  readonly tabIndex?: number;
  readonly onChange: (checked: boolean, event: MouseEvent | KeyboardEvent) => void;
}): JSX.Element {
  return (
    <span
      class={`check ${checked === false ? '' : 'on'}`}
      role="checkbox"
      tabIndex={tabIndex}
      aria-checked={checked}
      aria-label={label}
      onClick={(event) => {
        event.stopPropagation();
        onChange(checked !== true, event);
      }}
      onKeyDown={(event) => {
        if (event.key !== ' ') return;
        event.preventDefault();
        event.stopPropagation();
        onChange(checked !== true, event);
      }}
    >
      {checked === true && <Icon name="check" />}
      {checked === 'mixed' && <Icon name="minus" />}
    </span>
  );
}
