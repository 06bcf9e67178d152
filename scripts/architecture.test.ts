// The first journey of ARCHITECTURE.md is what a request really passes: every file it names exists, each hop is joined to the next
// by imports (directly, over one file in between, or by the composition root that hands one to the other), and in reading order.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
const packages = join(root, 'packages')
const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const journey = page.slice(page.indexOf('## A deployment object'), page.indexOf('## A webhook delivery'))
const hops = [...journey.matchAll(/^\| (\d+) \| (\S+\.ts) \|/gm)].map(([, hop, file]) => ({ hop: Number(hop), file: file! }))

/** Files of our packages that a file imports for their values; types alone carry nothing. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(packages, file), 'utf8')
  const statements = [...text.matchAll(/(?:^|\n)(?:import|export(?= \{)) (?!type )([\s\S]*?) from '([^']+)'/g)].filter(
    ([, names]) => !/^\{\s*(type \w+,?\s*)+\}$/.test(names!),
  )
  return statements.flatMap(([, , specifier]) => resolve(file, specifier!))
}

function resolve(from: string, specifier: string): string[] {
  const ours = /^@brokkr\/([^/]+)(?:\/(.+))?$/.exec(specifier)
  if (ours !== null) return [`${ours[1]}/src/${ours[2] ?? 'index.ts'}`]
  return specifier.startsWith('.') ? [relative(packages, join(packages, dirname(from), specifier))] : []
}

const reaches = (from: string, to: string, steps: number): boolean =>
  importsOf(from).includes(to) || (steps > 1 && importsOf(from).some((file) => file !== from && reaches(file, to, steps - 1)))
/** Composition roots, each with the files of its steps. A coordinator of the journey is a root too: it calls leaves that do not know each other. */
const roots: Record<string, readonly (readonly string[])[]> = {
  broker: [
    ['open-listener', 'open-feed', 'open-api'].map((step) => `broker/src/startup/${step}.ts`),
    ['broker/src/change-feed/change-feed.ts'],
  ],
  agent: [['agent/src/main.ts'], ['agent/src/start-subsystems.ts']],
}
const isHandedOver = (a: string, b: string): boolean =>
  [...hops.map(({ file }) => [file]), ...(roots[a.split('/')[0]!] ?? [])].some((steps) =>
    [a, b].every((file) => steps.some((step) => reaches(step, file, 3))),
  )

test('the journey names its hops in order, and every file exists', () => {
  expect(hops.length).toBeGreaterThan(10)
  expect(hops.map(({ hop }) => hop)).toEqual(hops.map(({ hop }) => hop).toSorted((a, b) => a - b))
  expect(hops.filter(({ file }) => !existsSync(join(packages, file))).map(({ file }) => file)).toEqual([])
})

test('each hop leads to the next by import, one file between, or a composition root', () => {
  const broken = hops.slice(1).flatMap(({ file }, at) => {
    const before = hops[at]!.file
    const isWire = before.split('/')[0] !== file.split('/')[0] && !reaches(before, file, 1)
    return isWire || reaches(before, file, 2) || isHandedOver(before, file) ? [] : [`${before} → ${file}`]
  })
  expect(broken).toEqual([])
})

test('no hop of the broker imports the agent, and none of the agent the broker', () => {
  const wrong = hops.flatMap(({ file }) =>
    importsOf(file).filter(
      (found) => (file.startsWith('broker/') && found.startsWith('agent/')) || (file.startsWith('agent/') && found.startsWith('broker/')),
    ),
  )
  expect(wrong).toEqual([])
})
