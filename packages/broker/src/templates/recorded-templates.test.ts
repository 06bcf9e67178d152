// The forty templates that the first version rendered, through the job that the worker runs: both answers agree, and the text byte for byte.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readManifest } from '../deployments/rules/manifest-job.ts'
import { parseJson } from '../http/request/json-text.ts'
import { doTemplateJob } from './rules/template-job.ts'

interface RecordedTemplate {
  readonly name: string
  readonly template_content: string
  readonly parameters_schema: string
  readonly parameters: object
  readonly create: { readonly status: number; readonly code?: string }
  readonly render?: { readonly status: number; readonly code?: string; readonly yaml_content?: string }
}

const file = new URL('fixtures/recorded-templates.json', import.meta.url)
const templates = parseJson(readFileSync(file, 'utf8'), { isExact: true }) as RecordedTemplate[]

/** What this release answers otherwise, on purpose. */
const differences: Readonly<Record<string, string>> = {
  'environment-attempt': 'template_render_failed',
  'not-inside-parentheses': 'invalid_template_syntax',
}

/** Stored by the first version although no API server accepts it: a null key, or no YAML. */
const refusedManifests = ['access-forms', 'if-elif-else', 'default-matrix', 'output-is-no-yaml']

/** The rendered text, or the code of the refusal. */
function answer({ template_content: source, parameters_schema: schema, parameters }: RecordedTemplate): string {
  const created = doTemplateJob({ do: 'check', source, schema })
  if (created.is === 'refused') return created.code
  const rendering = {
    source,
    schema,
    parameters: JSON.stringify(parameters),
    renderedAt: '2026-01-02T03:04:05.678Z',
    outputBytesMax: 8_000_000,
  }
  const rendered = doTemplateJob({ do: 'render', ...rendering })
  if (rendered.is === 'rendered') return rendered.text
  return rendered.is === 'refused' ? rendered.code : rendered.is
}

function isManifest(text: string): boolean {
  try {
    readManifest(text, 'lenient')
    return true
  } catch (error) {
    if ((error as { code?: string }).code === 'invalid_deployment_object') return false
    throw error
  }
}

test.each(templates.map((template): [string, RecordedTemplate] => [template.name, template]))(
  'the recorded template %s is answered as the first version did',
  (name, template) => {
    const recorded = template.create.code ?? template.render?.code ?? template.render?.yaml_content
    expect(answer(template)).toBe(differences[name] ?? recorded)
  },
)

test('recorded texts are accepted as manifests except those that no API server accepts', () => {
  const texts = templates.flatMap(({ name, render }) => (render?.yaml_content === undefined ? [] : [{ name, text: render.yaml_content }]))
  expect(texts.filter(({ text }) => !isManifest(text)).map(({ name }) => name)).toEqual(refusedManifests)
})

test('all forty recorded templates are compared', () => {
  expect(templates).toHaveLength(40)
  expect(Object.keys(differences).filter((name) => !templates.some((template) => template.name === name))).toEqual([])
})
