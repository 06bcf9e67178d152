// Light, dark or as the system. The choice is the only thing that the console stores in the browser.
import { useSyncExternalStore } from 'react'

export type Theme = 'light' | 'dark'
const storageKey = 'brokkr-theme'
const listeners = new Set<() => void>()
const dark = matchMedia('(prefers-color-scheme: dark)')

const readTheme = (): Theme => {
  const stored = localStorage.getItem(storageKey)
  return stored === 'light' || stored === 'dark' ? stored : dark.matches ? 'dark' : 'light'
}

export function applyTheme(): void {
  document.documentElement.dataset['theme'] = readTheme()
  for (const listener of listeners) listener()
}
dark.addEventListener('change', applyTheme)

export function toggleTheme(): void {
  localStorage.setItem(storageKey, readTheme() === 'dark' ? 'light' : 'dark')
  applyTheme()
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }, readTheme)
