// Documents agree with the code: every scenario that a test title cites has its sentence, and every relative link has its file.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')

function listFiles(folder: string, suffix: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(suffix) && !/(^|\/)(node_modules|dist)\//.test(file))
    .map((file) => join(folder, file))
}

const read = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Ids in brackets at any place of a string, as `[S12]` or `[S12, S13]`. */
const listIds = (text: string): string[] =>
  [...text.matchAll(/\[((?:[SAPDX]\d+)(?:[ ,]+[SAPDX]\d+)*)\]/g)].flatMap(([, ids]) => ids!.split(/[ ,]+/))

const documented = listFiles('docs/scenarios', '.md').flatMap((file) =>
  [...read(file).matchAll(/^\| ([SAPDX]\d+) \|/gm)].map(([, id]) => id!),
)

test('each scenario is documented once', () => {
  expect(documented.filter((id, at) => documented.indexOf(id) !== at)).toEqual([])
})

test('every scenario that a test title cites is documented', () => {
  const tests = ['packages', 'journeys', 'scripts'].flatMap((folder) => listFiles(folder, '.test.ts'))
  const titles = tests.flatMap((file) =>
    [...read(file).matchAll(/\b(?:test|it)(?:\.\w+)*(?:\([^'"`]*?\))?\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*?)\1/g)].map(
      ([, , title]) => title!,
    ),
  )
  const cited = new Set(titles.flatMap(listIds))
  expect(cited.size).toBeGreaterThan(200)
  expect([...cited].filter((id) => !documented.includes(id))).toEqual([])
})

test('every ADR has a number of its own, a status and a date', () => {
  const records = listFiles('docs/adr', '.md').filter((file) => !file.endsWith('template.md'))
  const numbers = records.map((file) => /\/(\d{4})-[a-z0-9-]+\.md$/.exec(file)?.[1] ?? file)
  expect(numbers.filter((number, at) => numbers.indexOf(number) !== at || number.length !== 4)).toEqual([])
  const headings = [
    /^\*\*Status\*\*: \w/m,
    /^\*\*Date\*\*: \d{4}-\d\d-\d\d$/m,
    /^## Context$/m,
    /^## Decision$/m,
    /^## Consequences$/m,
    /^## Measurements$/m,
  ]
  expect(records.filter((file) => headings.some((heading) => !heading.test(read(file))))).toEqual([])
})

test('every relative link of a document leads to a file', () => {
  const pages = [...readdirSync(root).filter((file) => file.endsWith('.md')), ...listFiles('docs', '.md')]
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)]
      .map(([, target]) => target!)
      .filter((target) => !existsSync(join(root, dirname(page), target)))
      .map((target) => `${relative('.', page)} → ${target}`),
  )
  expect(broken).toEqual([])
})
