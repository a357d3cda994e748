import type { ComponentChildren, JSX } from 'preact';
import { Icon, type IconName } from './icon.tsx';

interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly icon?: IconName;
  /** `ghost` has no border, `danger` is red text, `dangerFill` only in dialogs. */
  readonly look?: 'plain' | 'ghost' | 'primary' | 'danger' | 'ghostDanger' | 'dangerFill';
  readonly small?: boolean;
  /** The name of a button without text. Also its tooltip. */
  readonly label?: string;
  readonly disabled?: boolean;
  readonly class?: string;
  readonly type?: 'button' | 'submit';
  readonly pressed?: boolean;
  readonly onClick?: (event: MouseEvent) => void;
}

const looks = {
  plain: '',
  ghost: 'ghost',
  primary: 'primary',
  danger: 'danger',
  ghostDanger: 'ghost danger',
  dangerFill: 'danger-fill',
} as const;

export function Button({
  children,
  icon,
  look = 'plain',
  small = false,
  label,
  disabled = false,
  class: className = '',
  type = 'button',
  pressed,
  onClick,
}: ButtonProps): JSX.Element {
  const isIcon = children === undefined;
  return (
    <button
      type={type}
      class={`btn ${looks[look]} ${small ? 's' : ''} ${isIcon ? 'icon' : ''} ${className}`}
      disabled={disabled}
      aria-label={isIcon ? label : undefined}
      aria-pressed={pressed}
      title={label}
      onClick={onClick}
    >
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  );
}
