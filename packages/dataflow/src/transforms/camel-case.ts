// camelCase: splits keys at underscores and capitalizes each part; style lower starts with a lower-case letter.
import { renameKeys } from './rename-keys.ts'
import type { Transform } from './transform.ts'

export const camelCase: Transform<'camelCase'> = {
  type: 'camelCase',
  build: ({ deep, style }) => renameKeys((key) => toCamelCase(key, style), deep),
}

export function toCamelCase(key: string, style: 'pascal' | 'lower'): string {
  const parts = key.split('_').filter((part) => part !== '')
  if (parts.length === 0) return key
  return parts.map((part, i) => withFirst(part, style === 'lower' && i === 0 ? 'lower' : 'upper')).join('')
}

function withFirst(part: string, to: 'lower' | 'upper'): string {
  const first = String.fromCodePoint(part.codePointAt(0)!)
  return (to === 'lower' ? first.toLowerCase() : first.toUpperCase()) + part.slice(first.length)
}
