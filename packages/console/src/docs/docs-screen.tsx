// The reference of the API, grouped by resource: what an operation does, its fields, its errors, samples, and a call from this session.
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { CopyButton } from '../parts/command.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { type Operation, useOperations } from './openapi.ts'
import { SchemaView, typeName } from './schema-view.tsx'
import { TryIt } from './try-it.tsx'

const route = getRouteApi('/docs')

export function DocsScreen() {
  const { op, search = '' } = route.useSearch()
  const navigate = useNavigate()
  const operations = useOperations()
  const shown = useMemo(
    () =>
      (operations.data ?? []).filter(({ id, path, summary }) => `${id} ${path} ${summary}`.toLowerCase().includes(search.toLowerCase())),
    [operations.data, search],
  )
  const groups = useMemo(() => [...Map.groupBy(shown, ({ tag }) => tag)].toSorted(([a], [b]) => (a < b ? -1 : 1)), [shown])
  const chosen = operations.data?.find(({ id }) => id === op) ?? operations.data?.[0]
  return (
    <>
      <div className="head">
        <h1>API</h1>
        <span className="ink-3 head-note">{operations.data === undefined ? '' : `${operations.data.length} operations`}</span>
        <div className="acts">
          <a href="/docs/openapi.json" className="btn">
            openapi.json
          </a>
        </div>
      </div>
      <PanelBody query={operations}>
        {() => (
          <div className="docs">
            <nav className="docs-nav card" aria-label="Operations" tabIndex={-1}>
              <div className="filters">
                <input
                  className="input grow"
                  data-search
                  aria-label="Find an operation"
                  placeholder="find an operation"
                  value={search}
                  onChange={(event) =>
                    void navigate({
                      to: '/docs',
                      search: { ...(op === undefined ? {} : { op }), search: event.target.value },
                      replace: true,
                    })
                  }
                />
              </div>
              {groups.map(([tag, list]) => (
                <div key={tag}>
                  <h2>{tag}</h2>
                  {list.map((operation) => (
                    <Link
                      key={operation.id}
                      to="/docs"
                      search={{ op: operation.id, ...(search === '' ? {} : { search }) }}
                      className={operation.id === chosen?.id ? 'on' : ''}
                    >
                      <span className="verb">{operation.method}</span>
                      <span className="cut">{operation.id.replaceAll('_', ' ')}</span>
                    </Link>
                  ))}
                </div>
              ))}
            </nav>
            {chosen === undefined ? null : <OperationView key={chosen.id} operation={chosen} />}
          </div>
        )}
      </PanelBody>
    </>
  )
}

function OperationView({ operation }: { operation: Operation }) {
  const success = operation.responses.filter(({ status }) => status.startsWith('2'))
  const errors = operation.responses.filter(({ status }) => !status.startsWith('2'))
  return (
    <article className="card pad">
      <h2 className="docs-title">{operation.id.replaceAll('_', ' ')}</h2>
      <code className="mono">
        {operation.method} {operation.path}
      </code>
      <p className="ink-2">{operation.summary}.</p>
      {operation.parameters.length === 0 ? null : (
        <>
          <h3 className="b">Parameters</h3>
          <table className="table">
            <tbody>
              {operation.parameters.map((parameter) => (
                <tr key={`${parameter.in} ${parameter.name}`}>
                  <td className="mono f12">{parameter.name}</td>
                  <td className="ink-3 f12">{parameter.in}</td>
                  <td className="f12">{typeName(parameter.schema)}</td>
                  <td className="f12">{parameter.required === true ? 'required' : ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      {operation.body === null ? null : (
        <>
          <h3 className="b">Body</h3>
          <SchemaView schema={operation.body} />
        </>
      )}
      <h3 className="b">Response</h3>
      {success.map(({ status, description, schema }) => (
        <div key={status}>
          <span className="ink-2">
            {status}: {description}
          </span>
          {schema === null ? null : <SchemaView schema={schema} />}
        </div>
      ))}
      <TryIt operation={operation} />
      <Samples operation={operation} />
      <h3 className="b">Errors</h3>
      <table className="table">
        <tbody>
          {errors.map(({ status, description }) => (
            <tr key={status}>
              <td className="mono f12">{status}</td>
              <td className="f12 wraps">{description}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </article>
  )
}

const languages = [
  { id: 'curl', label: 'curl' },
  { id: 'client', label: 'TypeScript client' },
] as const

function Samples({ operation }: { operation: Operation }) {
  const [language, setLanguage] = useState<'curl' | 'client'>('curl')
  const camel = operation.id.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
  const hasPath = operation.parameters.some((parameter) => parameter.in === 'path')
  const parts = [
    hasPath
      ? `params: { ${operation.parameters
          .filter((one) => one.in === 'path')
          .map(({ name }) => name)
          .join(', ')} }`
      : '',
    operation.body === null ? '' : 'body',
  ]
    .filter(Boolean)
    .join(', ')
  const text =
    language === 'curl'
      ? `curl -fsS -X ${operation.method} -H "Authorization: Bearer $BROKKR_PAK"${operation.body === null ? '' : " -H 'content-type: application/json' -d @body.json"} ${location.origin}${operation.path}`
      : `const answer = await client.${camel}({ ${parts} })`
  return (
    <>
      <div className="row">
        <h3 className="b grow">Sample</h3>
        <Tabs options={languages} value={language} onChange={setLanguage} label="Language of the sample" />
      </div>
      <div className="cmd">
        <code className="grow cmd-text">{text}</code>
        <CopyButton text={text} label="Copy the sample" />
      </div>
    </>
  )
}
