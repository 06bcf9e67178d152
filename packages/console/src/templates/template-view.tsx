// One template: its form, its rendering on a chosen stack, its source, its versions.
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import { Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Command, shellWord } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'
import { EditTemplate } from './edit-template.tsx'
import { defaultsOf, parseSchema, SchemaForm } from './schema-form.tsx'

const renderAfterMs = 400

export function TemplateView({ template, versions }: { template: StackTemplate; versions: readonly StackTemplate[] }) {
  const schema = useMemo(() => parseSchema(template.parameters_schema), [template.parameters_schema])
  const [parameters, setParameters] = useState<Record<string, unknown>>(() => (schema === null ? {} : defaultsOf(schema)))
  const [isEditing, setEditing] = useState(false)
  const stacks = useCall('listStacks', { query: { limit: 500 } })
  const [stackId, setStackId] = useState('')
  const target = stackId === '' ? (stacks.data?.[0]?.id ?? '') : stackId
  const settled = useSettledValue(parameters)
  const rendered = useCall(
    'instantiateTemplate',
    { params: { stack_id: target }, query: { dry_run: true }, body: { template_id: template.id, parameters: settled } },
    { enabled: target !== '', keepsPrevious: true },
  )
  const toast = useToast()
  const submit = useDeed('instantiateTemplate', (object) => toast(`version ${object.sequence_id} submitted`))
  const blocked = useReadonlyReason()
  const stackName = stacks.data?.find(({ id }) => id === target)?.name ?? ''
  const reason = blocked ?? (target === '' ? 'a stack is needed; create one first' : null)
  return (
    <section className="card">
      <header>
        <h2 className="cut">
          <Name text={template.name} />
        </h2>
        <span className="chips">
          {versions.slice(0, 6).map((version) => (
            <Link key={version.id} to="/templates" search={{ id: version.id }} className={version.id === template.id ? 'tab on' : 'tab'}>
              v{version.version}
            </Link>
          ))}
        </span>
        <button type="button" className="btn sm push" onClick={() => setEditing(true)}>
          New version
        </button>
      </header>
      <div className="pad">
        {template.description === null ? null : <p className="ink-2">{plainText(template.description, 600)}</p>}
        {schema === null ? (
          <p className="ink-2">The schema cannot be shown as a form.</p>
        ) : (
          <SchemaForm schema={schema} value={parameters} onChange={setParameters} />
        )}
        <label className="field">
          <span>Render for stack</span>
          <select className="select" value={target} onChange={(event) => setStackId(event.target.value)}>
            {(stacks.data ?? []).map((stack) => (
              <option key={stack.id} value={stack.id}>
                {plainText(stack.name, 100)}
              </option>
            ))}
          </select>
        </label>
        <h3 className="b">Rendered</h3>
        {target === '' ? <p className="ink-3">{reason}</p> : null}
        <PanelBody query={rendered}>
          {(answer) => (
            <pre className="code-block" tabIndex={0} aria-label="Rendered manifest">
              {plainText(answer.yaml_content, 262_144)}
            </pre>
          )}
        </PanelBody>
        {submit.error === null ? null : <ErrorCard error={submit.error} />}
        <div className="row">
          <button
            type="button"
            className="btn go"
            disabled={reason !== null || submit.isPending || rendered.isError}
            title={reason ?? (rendered.isError ? 'the template cannot be rendered with these parameters' : undefined)}
            onClick={() => submit.mutate({ params: { stack_id: target }, body: { template_id: template.id, parameters } })}
          >
            Submit to {stackName === '' ? 'a stack' : plainText(stackName, 40)}
          </button>
          <span className="ink-3 f12">{reason ?? ''}</span>
        </div>
        <Command text={`brokkr templates render ${shellWord(template.name)} --stack ${shellWord(stackName)}`} />
        <details>
          <summary>Source</summary>
          <pre className="code-block" tabIndex={0} aria-label="Template source">
            {plainText(template.template_content, 262_144)}
          </pre>
        </details>
      </div>
      {isEditing ? <EditTemplate template={template} onClose={() => setEditing(false)} /> : null}
    </section>
  )
}

function useSettledValue<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), renderAfterMs)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}
