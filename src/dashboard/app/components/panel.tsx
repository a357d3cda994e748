import type { ComponentChildren, JSX } from 'preact';

/** A bordered part of a page with a title. */
export function Panel({
  title,
  right,
  class: className = '',
  children,
}: {
  readonly title?: ComponentChildren;
  readonly right?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <section class={`panel ${className}`}>
      {title !== undefined && (
        <div class="panel-h">
          <h2>{title}</h2>
          {right !== undefined && <div class="right">{right}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

/** A share of a whole as a bar. Its value is in text nearby. */
export function Meter({
  value,
  tone,
}: {
  readonly value: number;
  readonly tone?: string;
}): JSX.Element {
  return (
    <span class="meter" data-st={tone} aria-hidden="true">
      <i style={{ '--v': String(Math.max(0, Math.min(100, value))) }} />
    </span>
  );
}

/** A choice among few values. */
export function Segments<Value extends string>({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: Value;
  readonly options: readonly (readonly [value: Value, text: string])[];
  readonly onChange: (value: Value) => void;
}): JSX.Element {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map(([one, text]) => (
        <button key={one} type="button" aria-pressed={one === value} onClick={() => onChange(one)}>
          {text}
        </button>
      ))}
    </div>
  );
}
