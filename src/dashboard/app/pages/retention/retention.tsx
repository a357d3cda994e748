import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Retention(): JSX.Element {
  return <TopBar title="Retention and audit" />;
}
