import { effect, signal, type Signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
export type Density = 'comfortable' | 'compact';
export type TimeZone = 'local' | 'utc';

/** Keeps a value in the storage of the browser, where it is allowed. */
export function stored<Value>(
  key: string,
  initial: Value,
  isValid: (value: unknown) => boolean,
): Signal<Value> {
  const name = `perdure.${key}`;
  const value = signal(read());
  let isFirst = true;
  effect(() => {
    const text = JSON.stringify(value.value);
    if (isFirst) {
      isFirst = false;
      return;
    }
    try {
      localStorage.setItem(name, text);
    } catch {
      // Storage is full or forbidden: the value lasts until the page is closed.
    }
  });
  // Other tabs.
  addEventListener('storage', ({ key: changed }) => {
    if (changed === name) value.value = read();
  });
  return value;

  function read(): Value {
    try {
      const parsed: unknown = JSON.parse(localStorage.getItem(name) ?? 'null');
      return isValid(parsed) ? (parsed as Value) : initial;
    } catch {
      return initial;
    }
  }
}

const oneOf =
  (...allowed: readonly string[]) =>
  (value: unknown): boolean =>
    typeof value === 'string' && allowed.includes(value);

export const theme = stored<Theme>('theme', 'system', oneOf('system', 'light', 'dark'));
export const density = stored<Density>('density', 'comfortable', oneOf('comfortable', 'compact'));
export const timeZone = stored<TimeZone>('timeZone', 'local', oneOf('local', 'utc'));

/** Applies theme and density to the document. */
export function startSettings(): void {
  const root = document.documentElement;
  effect(() => {
    root.classList.add('no-transitions');
    if (theme.value === 'system') delete root.dataset['theme'];
    else root.dataset['theme'] = theme.value;
    root.dataset['density'] = density.value;
    requestAnimationFrame(() => root.classList.remove('no-transitions'));
  });
}
