import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Settings(): JSX.Element {
  return <TopBar title="Settings" />;
}
