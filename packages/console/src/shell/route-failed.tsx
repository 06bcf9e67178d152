import type { ErrorComponentProps } from '@tanstack/react-router'
import { ErrorCard } from '../parts/error-card.tsx'

export function RouteFailed({ error, reset }: ErrorComponentProps) {
  return (
    <div className="page-failed">
      <ErrorCard error={error instanceof Error ? error : new Error(String(error))} retry={reset} />
    </div>
  )
}
