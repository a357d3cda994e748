import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Icon } from '../../components/icon.tsx';
import { query, setQuery } from '../../state/router.ts';
import { filterFields, type FilterField } from './filter.ts';

interface Suggestion {
  readonly field: FilterField;
  readonly value?: string;
}

/** The filter: one token per condition, and a field that suggests more. */
export function FilterBar({ names }: { readonly names: readonly string[] }): JSX.Element {
  const [text, setText] = useState('');
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const suggestions = isOpen ? suggest(text, names) : [];
  const add = ({ field, value }: Suggestion): void => {
    if (value === undefined || value === '') {
      setText(`${field.key}:`);
      setAt(0);
      input.current?.focus();
      return;
    }
    const before = field.many === true ? query.peek().getAll(field.key) : [];
    setQuery({ [field.key]: [...before.filter((one) => one !== value), value] });
    setText('');
    setAt(0);
  };
  const remove = (field: FilterField, value: string): void => {
    setQuery({
      [field.key]: query
        .peek()
        .getAll(field.key)
        .filter((one) => one !== value),
    });
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : suggestions.length - 1;
      setOpen(true);
      setAt(suggestions.length === 0 ? 0 : (at + step) % suggestions.length);
    } else if (event.key === 'Enter') {
      const chosen = suggestions[at];
      if (chosen !== undefined) {
        event.preventDefault();
        add(chosen);
      }
    } else if (event.key === 'Escape') {
      if (isOpen && suggestions.length > 0) setOpen(false);
      else input.current?.blur();
    } else if (event.key === 'Backspace' && text === '') {
      const last = tokens(query.peek()).at(-1);
      if (last !== undefined) remove(last.field, last.value);
    }
  };
  return (
    <div class="fbar">
      <Icon small name="search" />
      {tokens(query.value).map(({ field, value }) => (
        <span key={`${field.key} ${value}`} class="tok">
          <i>{field.words}</i>
          <b class="cut">
            <bdi>{value}</bdi>
          </b>
          <button
            type="button"
            aria-label={`Remove filter ${field.words} ${value}`}
            onClick={() => remove(field, value)}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      <input
        ref={input}
        data-filter
        class="fbar-in"
        type="text"
        role="combobox"
        aria-label="Add a filter"
        aria-expanded={suggestions.length > 0}
        aria-controls="filter-suggestions"
        aria-activedescendant={suggestions.length > 0 ? `filter-suggestion-${at}` : undefined}
        aria-autocomplete="list"
        placeholder="Add a filter"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
          setAt(0);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd class="only-l">/</kbd>
      <ul
        id="filter-suggestions"
        class="fbar-list"
        role="listbox"
        // Browsers offer lists that scroll to the Tab key.
        tabIndex={-1}
        aria-label="Filters"
        hidden={suggestions.length === 0}
      >
        {suggestions.map((one, index) => (
          <li
            key={`${one.field.key} ${one.value ?? ''}`}
            id={`filter-suggestion-${index}`}
            role="option"
            aria-selected={index === at}
            class={index === at ? 'on' : ''}
            // The field must not lose the focus before the click.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => add(one)}
          >
            <span class="dim">{one.field.words}</span>
            {one.value === undefined ? (
              <span class="dim">{one.field.hint}</span>
            ) : (
              <b>
                <bdi>{one.value}</bdi>
              </b>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function tokens(params: URLSearchParams): readonly { field: FilterField; value: string }[] {
  return filterFields.flatMap((field) =>
    params.getAll(field.key).map((value) => ({ field, value })),
  );
}

/** Conditions for what was typed: `name:charge`, a part of a field or of a name, or the beginning of an id. */
function suggest(text: string, names: readonly string[]): readonly Suggestion[] {
  const typed = text.trim();
  const [, key, rest = ''] = /^(\w+):\s*(.*)$/s.exec(typed) ?? [];
  const field = filterFields.find((one) => one.key === key);
  if (field !== undefined) {
    const values = field.key === 'name' ? names : (field.values ?? []);
    const matching = values.filter((value) => contains(value, rest)).slice(0, 10);
    const own = rest !== '' && field.values === undefined && !matching.includes(rest);
    const all = [...(own ? [rest] : []), ...matching];
    return all.length > 0 ? all.map((value) => ({ field, value })) : [{ field }];
  }
  if (typed === '') return filterFields.map((one) => ({ field: one }));
  const byKey = (wanted: string): FilterField | undefined =>
    filterFields.find((one) => one.key === wanted);
  const guess = (wanted: string, value: string): readonly Suggestion[] => {
    const found = byKey(wanted);
    return found === undefined ? [] : [{ field: found, value }];
  };
  return [
    ...guess('id', typed),
    ...names
      .filter((name) => contains(name, typed))
      .slice(0, 6)
      .flatMap((name) => guess('name', name)),
    ...(/^[^=]+=./s.test(typed) ? guess('tag', typed) : []),
    ...guess('error', typed),
    ...(/^[A-Z][A-Z0-9_]+$/.test(typed) ? guess('code', typed) : []),
    ...filterFields.filter(({ words }) => contains(words, typed)).map((one) => ({ field: one })),
  ];
}

function contains(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}
