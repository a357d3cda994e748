import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../api/call.ts';
import type { ResponseBody } from '../api/operations.ts';
import { may } from '../api/session.ts';
import { Dialog } from '../components/dialog.tsx';
import { Icon, type IconName } from '../components/icon.tsx';
import { StatusIcon } from '../components/status.tsx';
import { ask } from '../state/actions.ts';
import { highlighted } from '../state/highlighted.ts';
import { isPaused } from '../state/live.ts';
import { href, instanceHref, navigate, place } from '../state/router.ts';
import { savedViews, viewHref } from '../state/saved-views.ts';
import { theme } from '../state/settings.ts';
import { statusWords, toneOf } from '../words/status.ts';
import { isHelpOpen, isPaletteOpen } from './palette-state.ts';
import { pages } from './pages.ts';
import { commandKey } from './shortcuts.ts';

type Row = ResponseBody<'listInstances'>['items'][number];

interface Option {
  readonly key: string;
  readonly group: string;
  readonly label: JSX.Element | string;
  readonly icon: IconName | JSX.Element;
  readonly right?: JSX.Element | string;
  /** The instance that the option opens. */
  readonly instance?: string;
  readonly run: () => void;
}

/** Search and commands: ⌘K. */
export function Palette(): JSX.Element | null {
  return isPaletteOpen.value ? <Opened /> : null;
}

function Opened(): JSX.Element {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const found = useInstances(text);
  const list = useRef<HTMLDivElement>(null);
  const close = (): void => {
    isPaletteOpen.value = false;
  };
  // Actions are offered on the result that was highlighted last, else on the instance or row of the page.
  const [subject, setSubject] = useState(pageInstance);
  const isFound = found.some(({ id }) => id === subject);
  const acted = found.length === 0 || isFound ? subject : found[0]?.id;
  const options = toOptions(text.trim(), found, acted);
  const chosen = Math.min(at, options.length - 1);
  const chosenInstance = options[chosen]?.instance;
  useEffect(() => {
    if (chosenInstance !== undefined) setSubject(chosenInstance);
    else if (found.length === 0) setSubject(pageInstance());
  }, [chosenInstance, found]);
  const run = (option: Option | undefined): void => {
    if (option === undefined) return;
    close();
    option.run();
  };
  useEffect(() => {
    list.current?.querySelector('.on')?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const groups = [...Map.groupBy(options, ({ group }) => group)];
  return (
    <Dialog class="pal" label="Search or jump to" onClose={close}>
      <div class="pal-in">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search or jump to"
          aria-expanded="true"
          aria-controls="palette-options"
          aria-activedescendant={options.length > 0 ? `palette-${chosen}` : undefined}
          aria-autocomplete="list"
          placeholder="Id, page or action"
          autocomplete="off"
          spellcheck={false}
          autofocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
              event.preventDefault();
              const step = event.key === 'ArrowDown' ? 1 : options.length - 1;
              setAt(options.length === 0 ? 0 : (chosen + step) % options.length);
            } else if (event.key === 'Enter') {
              event.preventDefault();
              const { instance } = options[chosen] ?? {};
              if ((event.metaKey || event.ctrlKey) && instance !== undefined) {
                window.open(instanceHref(instance), '_blank', 'noopener');
              } else run(options[chosen]);
            }
          }}
        />
        <kbd class="only-l">Esc</kbd>
      </div>
      <div id="palette-options" class="pal-list" role="listbox" aria-label="Results" ref={list}>
        {groups.map(([group, inside]) => (
          <div key={group} class="pal-g" role="group" aria-label={group}>
            <h3 role="presentation">{group}</h3>
            {inside.map((option) => {
              const index = options.indexOf(option);
              return (
                <div
                  key={option.key}
                  id={`palette-${index}`}
                  class={`pal-o ${index === chosen ? 'on' : ''}`}
                  role="option"
                  aria-selected={index === chosen}
                  onMouseMove={() => setAt(index)}
                  onClick={() => run(option)}
                >
                  {typeof option.icon === 'string' ? <Icon name={option.icon} /> : option.icon}
                  <span class="cut">{option.label}</span>
                  {option.right !== undefined && <span class="r">{option.right}</span>}
                </div>
              );
            })}
          </div>
        ))}
        {options.length === 0 && <p class="pal-none dim">No results.</p>}
      </div>
      <div class="pal-f">
        <span>
          <kbd>↑</kbd>
          <kbd>↓</kbd>move
        </span>
        <span>
          <kbd>
            <Icon small name="enter" label="Enter" />
          </kbd>
          open
        </span>
        <span>
          <kbd>{commandKey.replace(/ K$/, '')}</kbd>
          <kbd>
            <Icon small name="enter" label="Enter" />
          </kbd>
          new tab
        </span>
        <span>
          <kbd>?</kbd>all keys
        </span>
      </div>
    </Dialog>
  );
}

/** Instances whose id begins with the text. */
function useInstances(text: string): readonly Row[] {
  const [rows, setRows] = useState<readonly Row[]>([]);
  useEffect(() => {
    const prefix = text.trim();
    if (prefix === '') {
      setRows([]);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      void call('listInstances', { query: { idPrefix: prefix, limit: 6 } }, abort.signal).then(
        ({ items }) => setRows(items),
        () => undefined, // The next key tries again.
      );
    }, 120);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return rows;
}

/** The instance of the page, or of the row that the keyboard is on. */
function pageInstance(): string | undefined {
  const [first, id] = place.value.segments;
  return first === 'instances' ? (id ?? highlighted.value) : undefined;
}

function toOptions(
  text: string,
  rows: readonly Row[],
  acted: string | undefined,
): readonly Option[] {
  const matches = (words: string): boolean =>
    text === '' || words.toLowerCase().includes(text.toLowerCase());
  // A text that finds instances is an id, which matches no action.
  const isId = rows.some(({ id }) => id === acted);
  return [
    ...rows.map((row): Option => ({
      key: `instance ${row.id}`,
      group: 'Instances',
      icon: <StatusIcon tone={toneOf(row)} />,
      label: (
        <>
          <bdi class="mono">
            <mark>{row.id.slice(0, text.length)}</mark>
            {row.id.slice(text.length)}
          </bdi>{' '}
          <bdi class="sec">{row.name}</bdi>
        </>
      ),
      right: statusWords[toneOf(row)].word,
      instance: row.id,
      run: () => navigate(instanceHref(row.id)),
    })),
    ...(text === ''
      ? []
      : [
          {
            key: 'prefix',
            group: 'Instances',
            icon: 'search' as const,
            label: (
              <>
                All whose id begins with <bdi class="mono">{text}</bdi>
              </>
            ),
            run: () => navigate(href(['instances'], new URLSearchParams({ id: text }))),
          },
          {
            key: 'error',
            group: 'Instances',
            icon: 'search' as const,
            label: (
              <>
                All whose failure contains <bdi class="mono">{text}</bdi>
              </>
            ),
            run: () => navigate(href(['instances'], new URLSearchParams({ error: text }))),
          },
        ]),
    ...(acted === undefined || !may('operate')
      ? []
      : actionsOn(acted).filter(({ key }) => isId || matches(key))),
    ...savedViews.value
      .filter(({ name }) => matches(name))
      .map((view) => ({
        key: `view ${view.name}`,
        group: 'Saved views',
        icon: 'instances' as const,
        label: <bdi>{view.name}</bdi>,
        run: () => navigate(viewHref(view)),
      })),
    ...pages
      .filter(({ title }) => matches(title))
      .map(({ path, title, icon, key }) => ({
        key: `page ${path}`,
        group: 'Go to',
        icon,
        label: title,
        right: (
          <>
            <kbd>g</kbd>
            <kbd>{key}</kbd>
          </>
        ),
        run: () => navigate(href(path === '' ? [] : [path])),
      })),
    ...[
      {
        key: isPaused.value ? 'Resume live updates' : 'Pause live updates',
        icon: 'pause' as const,
        run: () => {
          isPaused.value = !isPaused.peek();
        },
      },
      {
        key: 'Use the dark theme',
        icon: 'settings' as const,
        run: () => {
          theme.value = 'dark';
        },
      },
      {
        key: 'Use the light theme',
        icon: 'settings' as const,
        run: () => {
          theme.value = 'light';
        },
      },
      {
        key: 'Show the keys',
        icon: 'code' as const,
        run: () => {
          isHelpOpen.value = true;
        },
      },
    ]
      .filter(({ key }) => matches(key))
      .map((option) => ({ ...option, group: 'Do', label: option.key })),
  ];
}

function actionsOn(id: string): readonly Option[] {
  const start = (action: 'cancel' | 'retry' | 'pause' | 'resume' | 'raiseEvent') => (): void => {
    void call('getInstance', { params: { id } }).then(
      ({ name, status }) => ask(action, { kind: 'instance', id, name, status }),
      () => undefined, // The page of the instance shows the error.
    );
  };
  const group = `Act on ${id}`;
  return [
    { key: 'Send an event', group, icon: 'send', label: 'Send an event', run: start('raiseEvent') },
    { key: 'Pause', group, icon: 'pause', label: 'Pause', run: start('pause') },
    { key: 'Resume', group, icon: 'running', label: 'Resume', run: start('resume') },
    { key: 'Retry', group, icon: 'retrying', label: 'Retry', run: start('retry') },
    { key: 'Cancel', group, icon: 'close', label: 'Cancel', run: start('cancel') },
  ];
}
