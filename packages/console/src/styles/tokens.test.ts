// Contrast of the tokens in both schemes, and no colour outside of them.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const folder = import.meta.dirname
const tokens = readFileSync(join(folder, 'tokens.css'), 'utf8')

function readScheme(name: 'light' | 'dark'): Record<string, string> {
  const block = tokens.slice(
    tokens.indexOf(`[data-theme="${name}"]`) === -1 ? tokens.indexOf(`[data-theme='${name}']`) : tokens.indexOf(`[data-theme="${name}"]`),
  )
  return Object.fromEntries(
    [...block.slice(0, block.indexOf('}')).matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, key, value]) => [key!, value!]),
  )
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5]
    .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.039_28 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!
}
function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].toSorted((x, y) => y - x)
  return (light! + 0.05) / (dark! + 0.05)
}

test.each(['light', 'dark'] as const)('texts of the %s scheme have a contrast of 4.5 on every ground', (name) => {
  const scheme = readScheme(name)
  const grounds = ['bg', 'surface', 'sunken', 'hover', 'selected']
  const states = ['current', 'progressing', 'behind', 'degraded', 'failing', 'held', 'stale', 'unknown']
  const pairs = [
    ...['ink', 'ink-2', 'ink-3', ...states].flatMap((text) => grounds.map((ground) => [text, ground] as const)),
    ...states.map((state) => [state, `${state}-tint`] as const),
  ]
  const low = pairs.filter(([text, ground]) => contrast(scheme[text]!, scheme[ground]!) < 4.5)
  expect(low).toEqual([])
})

test('colours are defined by tokens only', () => {
  const sheets = readdirSync(folder).filter((file) => file.endsWith('.css') && file !== 'tokens.css')
  expect(sheets.filter((file) => /#[0-9a-f]{3,8}\b(?![\w-])/i.test(readFileSync(join(folder, file), 'utf8')))).toEqual([])
})
