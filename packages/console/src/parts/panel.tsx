// A card that reads its own data and fails alone: it keeps its last data with their age, says what failed, and is tried again.
import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { useFeed } from '../api/session.tsx'
import { Age } from './age.tsx'
import { ErrorCard } from './error-card.tsx'

type Readable<T> = Pick<UseQueryResult<T>, 'data' | 'error' | 'failureReason' | 'isPending' | 'dataUpdatedAt' | 'fetchStatus'> & {
  refetch(): unknown
}

export interface PanelProps<T> {
  readonly title: ReactNode
  readonly query: Readable<T>
  readonly children: (data: T) => ReactNode
  readonly count?: ReactNode
  readonly tools?: ReactNode
  readonly className?: string
  readonly isLined?: boolean
}

export function Panel<T>({ title, query, children, count, tools, className = '', isLined = false }: PanelProps<T>) {
  return (
    <section className={`card ${isLined ? 'lined' : ''} ${className}`}>
      <header>
        <h2>{title}</h2>
        {count === undefined ? null : <span className="ink-3">{count}</span>}
        {tools}
        <DataAge query={query} />
      </header>
      <PanelBody query={query}>{children}</PanelBody>
    </section>
  )
}

/** Says how old the data are, only when they may be outdated. */
export function DataAge<T>({ query }: { query: Readable<T> }) {
  const feed = useFeed()
  const isOld = query.failureReason !== null || feed.state === 'stale'
  if (query.dataUpdatedAt === 0 || !isOld) return null
  return (
    <span className="age push">
      as of <Age at={query.dataUpdatedAt} suffix=" ago" />
    </span>
  )
}

export function PanelBody<T>({ query, children }: { query: Readable<T>; children: (data: T) => ReactNode }) {
  const failure = query.error ?? query.failureReason
  return (
    <>
      {failure === null ? null : <ErrorCard error={failure} retry={() => void query.refetch()} />}
      {query.data === undefined ? (
        failure === null && query.isPending && query.fetchStatus === 'fetching' ? (
          <Skeleton />
        ) : null
      ) : (
        <div className={failure === null ? 'body' : 'body outdated'}>{children(query.data)}</div>
      )}
    </>
  )
}

const skeletonAfterMs = 300

/** Only on the first load, and only if it takes longer than a blink. */
export function Skeleton({ rows = 4 }: { rows?: number }) {
  const [isShown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), skeletonAfterMs)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div className="skeleton" role="status" aria-label="loading">
      {isShown ? Array.from({ length: rows }, (_, index) => <i key={index} />) : null}
    </div>
  )
}
