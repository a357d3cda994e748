import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icon.tsx';

export interface MenuItem {
  readonly label: ComponentChildren;
  readonly danger?: boolean;
  /** Why the item cannot be used now. */
  readonly disabled?: string | false;
  readonly onSelect: () => void;
}

/** A button that opens a list of actions. Arrow keys move, Escape closes. */
export function Menu({
  label,
  icon = 'more',
  text,
  items,
  small = false,
  look = 'plain',
}: {
  readonly label: string;
  readonly icon?: IconName;
  readonly text?: string;
  readonly items: readonly MenuItem[];
  readonly small?: boolean;
  readonly look?: 'plain' | 'ghost';
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: Event): void => {
      if (!(event.target instanceof Node) || box.current?.contains(event.target) !== true)
        setOpen(false);
    };
    document.addEventListener('pointerdown', close);
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    return () => document.removeEventListener('pointerdown', close);
  }, [isOpen]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    const all = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const move = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[
      event.key
    ];
    if (move !== undefined) {
      event.preventDefault();
      all[move % all.length]?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      setOpen(false);
      event.stopPropagation();
      box.current?.querySelector<HTMLElement>('button')?.focus();
    }
  };
  return (
    <div class="menu-box" ref={box} onKeyDown={onKeyDown}>
      <button
        type="button"
        class={`btn ${look === 'ghost' ? 'ghost' : ''} ${small ? 's' : ''} ${text === undefined ? 'icon' : ''}`}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={text === undefined ? label : undefined}
        title={label}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name={icon} />
        {text}
      </button>
      {isOpen && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map((item, index) => (
            <button
              key={index}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={item.danger === true ? 'danger' : ''}
              aria-disabled={item.disabled !== undefined && item.disabled !== false}
              title={item.disabled === false ? undefined : item.disabled}
              onClick={() => {
                if (item.disabled !== undefined && item.disabled !== false) return;
                setOpen(false);
                item.onSelect();
              }}
            >
              {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
